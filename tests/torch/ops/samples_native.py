"""Samples of the functions of ``torch`` that stand behind layers, and of norms under former names."""

import numpy as np

from tests.torch.ops.sample import Sample, normal

_X, _W = normal(2, 4, 6), normal(4, 2, 3, seed=1)
_IMAGE = normal(1, 2, 5, 5)


def _weights(gates: int, inputs: int, hidden: int, layers: int = 1, directions: int = 1, biases: bool = True) -> list:
    """The weights of recurrent layers, one after the other."""
    found = []
    for layer in range(layers):
        for direction in range(directions):
            seed = 10 * layer + direction
            width = inputs if layer == 0 else hidden * directions
            found += [normal(gates * hidden, width, seed=seed), normal(gates * hidden, hidden, seed=seed + 1)]
            if biases:
                found += [normal(gates * hidden, seed=seed + 2), normal(gates * hidden, seed=seed + 3)]
    return found


_SEQUENCE, _STATE, _CELL = normal(4, 2, 3), normal(1, 2, 2), normal(1, 2, 2, seed=1)
_STATES = normal(4, 2, 2), normal(4, 2, 2, seed=1)
_PACKED, _SIZES = normal(5, 3), np.array([2, 2, 1])
_ONE = (True, 1, 0.0, False, False)
_BOTH = (False, 2, 0.0, False, True)

RECURRENT = [
    Sample("lstm", (_SEQUENCE, [_STATE, _CELL], _weights(4, 3, 2), *_ONE, False), order=1),
    Sample("lstm", (_SEQUENCE, [*_STATES], _weights(4, 3, 2, 2, 2, False), *_BOTH, False), label="both ways", order=1,
           names=False),
    Sample("lstm", (_SEQUENCE.swapaxes(0, 1).copy(), [_STATE, _CELL], _weights(4, 3, 2), *_ONE, True),
           label="batch first", order=1),
    Sample("lstm", (_PACKED, _SIZES, [_STATE, _CELL], _weights(4, 3, 2), *_ONE), label="packed", order=1),
    Sample("gru", (_SEQUENCE, _STATE, _weights(3, 3, 2), *_ONE, False), order=1),
    Sample("gru", (_PACKED, _SIZES, _STATE, _weights(3, 3, 2), *_ONE), label="packed", order=1),
    Sample("rnn_tanh", (_SEQUENCE, _STATE, _weights(1, 3, 2), *_ONE, False), order=1),
    Sample("rnn_tanh", (_PACKED, _SIZES, _STATE, _weights(1, 3, 2), *_ONE), label="packed", order=1),
    Sample("rnn_relu", (_SEQUENCE, _STATE, _weights(1, 3, 2), *_ONE, False), order=1),
    Sample("rnn_relu", (_SEQUENCE, _STATES[0], _weights(1, 3, 2, 2, 2, False), *_BOTH, False), label="both ways",
           order=1, names=False),
    Sample("lstm_cell", (normal(2, 3), [_STATE[0], _CELL[0]], *_weights(4, 3, 2)), order=1),
    Sample("gru_cell", (normal(2, 3), _STATE[0], *_weights(3, 3, 2)), order=1),
    Sample("gru_cell", (normal(2, 3), _STATE[0], *_weights(3, 3, 2, biases=False)), label="plain", order=1),
    Sample("rnn_tanh_cell", (normal(2, 3), _STATE[0], *_weights(1, 3, 2)), order=1),
    Sample("rnn_relu_cell", (normal(2, 3), _STATE[0], *_weights(1, 3, 2)), order=1),
    Sample("rnn_relu_cell", (normal(2, 4), _STATE[0], *_weights(1, 3, 2)), label="sizes"),
]  # fmt: skip

CONVOLUTION = [
    Sample("convolution", (_X, _W, None, [1], [0], [1], False, [0], 2)),
    Sample("convolution", (_X, _W, normal(4), [2], [1], [1], False, [0], 2), label="bias"),
    Sample("convolution", (_X, normal(4, 2, 3), normal(2), [2], [1], [1], True, [1], 1), label="transposed"),
    Sample("convolution", (_IMAGE, normal(3, 2, 2, 2), None, [1, 2], [0, 1], [2, 1], False, [0, 0], 1), label="two"),
    Sample("convolution", (_IMAGE, normal(3, 2, 2, 2), None, [2], [1], [1], False, [0], 1), label="one for all"),
    Sample("convolution", (_X, normal(4, 3, 3), None, [1], [0], [1], False, [0], 1), label="channels"),
]

DROPOUT = [
    Sample("native_dropout", (normal(3, 4), 0.5, True), seeded=True),
    # PyTorch leaves the scale out of this one's gradient
    Sample("native_dropout", (normal(3, 4), 0.3, None), label="none", seeded=True, order=0),
    Sample("native_dropout", (normal(3, 4), 0.5, False), label="evaluation", seeded=True),
    Sample("native_dropout", (normal(3, 4), 1.0, True), label="all", seeded=True),
    Sample("native_dropout", (normal(3, 4), 0.0, True), label="nothing", seeded=True),
    Sample("native_dropout", (normal(3, 4), 2.0, True), label="too much", seeded=True),
]

_TABLE, _ROWS, _STARTS = normal(4, 3), np.array([0, 1, 2, 3, 1]), np.array([0, 2])

BAGS = [
    *[Sample("embedding_bag", (_TABLE, _ROWS, _STARTS, False, mode), label=str(mode)) for mode in range(3)],
    *[Sample("embedding_bag", (_TABLE.astype("float32"), _ROWS, _STARTS, False, mode), label=f"{mode} single", order=1,
             tolerance=1e-5) for mode in range(3)],
    *[Sample("embedding_bag", (_TABLE, _ROWS, np.array([0, 2, 5]), False, mode, False, None, True), label=f"{mode} end",
             order=1) for mode in range(3)],
    *[Sample("embedding_bag", (_TABLE, _ROWS, np.array([0, 2, 2]), False, mode, False, None, False, 1),
             label=f"{mode} padding", order=1) for mode in range(3)],
    Sample("embedding_bag", (_TABLE, _ROWS, _STARTS, True, 0, False, normal(5)), label="weights", order=1),
    Sample("embedding_bag", (_TABLE, np.zeros(0, "int64"), np.array([0]), False, 2), label="empty", order=1),
]  # fmt: skip

NORMS = [
    Sample("norm_except_dim", (normal(3, 2, 4),)),
    Sample("norm_except_dim", (normal(3, 2, 4), 2, 1), label="middle"),
    Sample("norm_except_dim", (normal(3, 2, 4), 1, 2), label="last"),
    # PyTorch's second derivatives of these take the norms for constants
    Sample("_weight_norm", (normal(3, 2), normal(3, 1, seed=1)), order=1),
    Sample("_weight_norm", (normal(3, 2), normal(1, 2, seed=1), 1), label="last", order=1),
    Sample("_weight_norm", (normal(3, 2, 2), normal(1, 2, 1, seed=1), 1), label="middle"),
    Sample("frobenius_norm", (normal(2, 3), 1)),
    Sample("frobenius_norm", (normal(2, 3), [0, 1], True), label="both"),
    Sample("frobenius_norm", (normal(2, 3), [0, 1, 1]), label="too many"),
    Sample("nuclear_norm", (normal(2, 3),), order=1),
    Sample("nuclear_norm", (normal(2, 3), True), label="kept", order=1),
    Sample("nuclear_norm", (normal(2, 3, 2), [0, 2]), label="axes", order=1),
    Sample("nuclear_norm", (normal(2, 3), 1), label="one axis"),
    Sample("nuclear_norm", (normal(2),), label="vector"),
]

SAMPLES = [*RECURRENT, *CONVOLUTION, *DROPOUT, *BAGS, *NORMS]
