"""The computation of recurrent layers: cells run over sequences, in one or both directions, in several layers.

They are composed of other operations as PyTorch's are, so that the nodes have the same names; the products with the
inputs are computed for all steps at once.  A float32 layer of an ``lstm`` on a CPU is one operation: see ``one_dnn``.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.nn import functional as F, one_dnn
from fgrad.torch.nn.packing import moments

#: gates from the input, state, weights from the state -> new state
Cell = Callable[[Any, tuple[Any, ...], "Weights"], tuple[Any, ...]]
#: how many packed sequences run at each time step; None for sequences of one length
Sizes = Sequence[int] | None
#: a layer in one direction: input, first state, weights, whether it is reversed -> outputs, last state
Layer = Callable[[Any, tuple[Any, ...], tuple[Any, ...], bool], tuple[Any, tuple[Any, ...]]]


class Weights:
    """The weights of one layer in one direction."""

    def __init__(self, weight_ih: Any, weight_hh: Any, *others: Any) -> None:
        self.weight_ih = weight_ih
        self.weight_hh = weight_hh
        # two biases or none, then the projection of the hidden state or none
        biases, rest = (others[:2], others[2:]) if len(others) > 1 else ((None, None), others)
        self.bias_ih: Any = biases[0]
        self.bias_hh: Any = biases[1]
        self.weight_hr: Any | None = rest[0] if rest else None

    def from_input(self, input: Any) -> Any:
        return F.linear(input, self.weight_ih, self.bias_ih)

    def from_state(self, state: Any) -> Any:
        return F.linear(state, self.weight_hh, self.bias_hh)


# --------------------------------------------------------------------------------------------------------------------
# cells


def _tanh(gates: Any, state: tuple[Any, ...], weights: Weights) -> tuple[Any, ...]:
    return ((weights.from_state(state[0]) + gates).tanh(),)


def _relu(gates: Any, state: tuple[Any, ...], weights: Weights) -> tuple[Any, ...]:
    return ((weights.from_state(state[0]) + gates).relu(),)


def _gru(gates: Any, state: tuple[Any, ...], weights: Weights) -> tuple[Any, ...]:
    (hidden,) = state
    reset_input, update_input, new_input = ops.unsafe_chunk(gates, 3, 1)
    reset_state, update_state, new_state = ops.unsafe_chunk(weights.from_state(hidden), 3, 1)
    reset = (reset_state + reset_input).sigmoid()
    update = (update_state + update_input).sigmoid()
    new = (new_input + new_state * reset).tanh()
    return ((hidden - new).mul_(update).add_(new),)


def _lstm(gates: Any, state: tuple[Any, ...], weights: Weights) -> tuple[Any, ...]:
    hidden, cell = state
    add, forget, candidate, output = ops.unsafe_chunk(weights.from_state(hidden) + gates, 4, 1)
    cell = (forget.sigmoid() * cell).add_(add.sigmoid() * candidate.tanh())
    hidden = output.sigmoid() * cell.tanh()
    return hidden if weights.weight_hr is None else hidden.matmul(weights.weight_hr.t()), cell


def rnn_tanh_cell(input: Any, hx: Any, *weights: Any) -> Any:
    """One step of ``rnn_tanh``."""
    return _step(_tanh, input, (hx,), weights)[0]


def rnn_relu_cell(input: Any, hx: Any, *weights: Any) -> Any:
    """One step of ``rnn_relu``."""
    return _step(_relu, input, (hx,), weights)[0]


def gru_cell(input: Any, hx: Any, *weights: Any) -> Any:
    """One step of ``gru``."""
    return _step(_gru, input, (hx,), weights)[0]


def lstm_cell(input: Any, hx: Any, *weights: Any) -> tuple[Any, ...]:
    """One step of ``lstm``: the new hidden state and cell."""
    if isinstance(hx, Tensor):
        raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
    return _step(_lstm, input, tuple(hx), weights)


def _step(cell: Cell, input: Any, state: tuple[Any, ...], parameters: Sequence[Any]) -> tuple[Any, ...]:
    weights = Weights(*parameters)
    _check_cell(input, state, weights)
    return cell(weights.from_input(input), state, weights)


def _check_cell(input: Any, state: tuple[Any, ...], weights: "Weights") -> None:
    """Raise PyTorch's errors for sizes that do not fit."""
    wanted, hidden = weights.weight_ih.size(1), weights.weight_hh.size(1)
    if input.size(1) != wanted:
        raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)} expected {wanted}")
    for i, each in enumerate(state):
        if each.size(0) != input.size(0):
            raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{i} batch size {each.size(0)}")
        if each.size(1) != hidden:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {each.size(1)}, expected {hidden}")


# --------------------------------------------------------------------------------------------------------------------
# layers


def rnn_tanh(input: Any, hx: Any, *rest: Any, sizes: Sizes = None) -> tuple[Any, ...]:
    """A recurrent network with ``tanh``: the outputs and the last states."""
    return _cells(_tanh, input, (hx,), *rest, sizes=sizes)


def rnn_relu(input: Any, hx: Any, *rest: Any, sizes: Sizes = None) -> tuple[Any, ...]:
    """A recurrent network with ``relu``: the outputs and the last states."""
    return _cells(_relu, input, (hx,), *rest, sizes=sizes)


def gru(input: Any, hx: Any, *rest: Any, sizes: Sizes = None) -> tuple[Any, ...]:
    """Gated recurrent units: the outputs and the last states."""
    return _cells(_gru, input, (hx,), *rest, sizes=sizes)


def lstm(input: Any, hx: Any, *rest: Any, sizes: Sizes = None) -> tuple[Any, ...]:
    """Long short-term memory: the outputs, the last hidden states and the last cells."""
    hidden, cell = hx
    if sizes is None and one_dnn.takes(input, hidden, cell, *rest[0]):
        if hidden.size(2) == cell.size(2):
            return _layers(one_dnn.lstm_layer, input, _in_memory(hidden, cell), *rest)
        warn_once(_PROJECTED)
    return _cells(_lstm, input, (hidden, cell), *rest, sizes=sizes)


_PROJECTED = "LSTM with projections is not supported with oneDNN. Using default implementation."


def _in_memory(*states: Any) -> Iterator[tuple[Any, ...]]:
    """The initial state of each layer, copied where it is not contiguous."""
    states = tuple([part.contiguous() for part in states])
    return (tuple([part[i] for part in states]) for i in range(states[0].size(0)))


def _cells(cell: Cell, input: Any, state: tuple[Any, ...], *rest: Any, sizes: Sizes) -> tuple[Any, ...]:
    """Layers that run a cell step by step."""
    states = zip(*(part.unbind(0) for part in state), strict=True)
    return _layers(partial(_run, cell) if sizes is None else partial(_run_packed, cell, sizes), input, states, *rest)


def _layers(
    run: Layer,
    input: Any,
    states: Iterator[tuple[Any, ...]],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """Run all layers: ``params`` are their weights in order, ``states`` their initial states."""
    directions = 2 if bidirectional else 1
    size = len(params) // (num_layers * directions)
    weights = (tuple(params[i : i + size]) for i in range(0, len(params), size))
    last = []
    x = input.transpose(0, 1) if batch_first else input
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            output, final = run(x, next(states), next(weights), direction == 1)
            outputs.append(output)
            last.append(final)
        x = outputs[0] if directions == 1 else ops.cat(outputs, -1)
        if dropout != 0 and train and layer < num_layers - 1:
            x = F.dropout(x, dropout, training=True)
    return (x.transpose(0, 1) if batch_first else x, *(ops.stack(parts, 0) for parts in zip(*last, strict=True)))


def _run(
    cell: Cell, x: Any, state: tuple[Any, ...], parameters: tuple[Any, ...], backwards: bool
) -> tuple[Any, tuple[Any, ...]]:
    """One layer in one direction: its outputs and the state after the last step."""
    if not x.size(0):
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    weights = Weights(*parameters)
    steps = weights.from_input(x).unbind(0)
    outputs = []
    for gates in reversed(steps) if backwards else steps:
        state = cell(gates, state, weights)
        outputs.append(state[0])
    return ops.stack(outputs[::-1] if backwards else outputs, 0), state


def _run_packed(
    cell: Cell, sizes: Sequence[int], x: Any, state: tuple[Any, ...], parameters: tuple[Any, ...], backwards: bool
) -> tuple[Any, tuple[Any, ...]]:
    """``_run`` over packed sequences."""
    weights = Weights(*parameters)
    run = _run_packed_backwards if backwards else _run_packed_forwards
    return run(cell, moments(weights.from_input(x), sizes), state, weights)


def _run_packed_forwards(
    cell: Cell, steps: Sequence[Any], state: tuple[Any, ...], weights: Weights
) -> tuple[Any, tuple[Any, ...]]:
    """One layer over packed sequences: at each step the sequences that have ended, the last ones, are dropped."""
    outputs, ended = [], []
    for gates in steps:
        running, before = gates.size(0), state[0].size(0)
        if running < before:
            ended.append(tuple([part.narrow(0, running, before - running) for part in state]))
            state = tuple([part.narrow(0, 0, running) for part in state])
        state = cell(gates, state, weights)
        outputs.append(state[0])
    final = [state, *reversed(ended)]
    return ops.cat(outputs, 0), tuple([ops.cat(parts, 0) for parts in zip(*final, strict=True)])


def _run_packed_backwards(
    cell: Cell, steps: Sequence[Any], state: tuple[Any, ...], weights: Weights
) -> tuple[Any, tuple[Any, ...]]:
    """One layer over packed sequences, reversed: at each step the sequences that end there are added."""
    outputs = []
    begun = tuple([part.narrow(0, 0, steps[-1].size(0)) for part in state])
    for gates in reversed(steps):
        running, before = gates.size(0), begun[0].size(0)
        if running > before:
            entering = [part.narrow(0, before, running - before) for part in state]
            begun = tuple([ops.cat(parts, 0) for parts in zip(begun, entering, strict=True)])
        begun = cell(gates, begun, weights)
        outputs.append(begun[0])
    return ops.cat(outputs[::-1], 0), begun
