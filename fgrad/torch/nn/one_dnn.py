"""A layer of long short-term memory as one operation, which on a CPU PyTorch leaves to oneDNN.

Source: ``mkldnn_rnn_layer`` in PyTorch's aten/src/ATen/native/mkldnn/RNN.cpp.
"""

from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.context.modes import modes
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types import dtypes
from fgrad.torch.backends import mkldnn
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array

_OPERANDS = ("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_")
_RESULTS = ("result0", "result1", "result2")
#: PyTorch's one workspace is here a value for each gate and for the cells
_WORKSPACE = ("result3", "result4", "result5", "result6", "result7", "result8")


@overload(
    "mkldnn_rnn_layer",
    "MkldnnRnnLayerBackward0",
    saved=_OPERANDS,
    outputs=(*_RESULTS, *_WORKSPACE),
    always_saved=(*_OPERANDS, *_RESULTS),
    workspace=_WORKSPACE,
    constants=(("batch_sizes", ()), ("mode", 2)),
    in_float32=True,
)
def _layer(
    input: Array,
    weight0: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    hx_: Array,
    cx_: Array,
    reverse: bool,
    has_biases: bool,
    train: bool,
) -> Any:
    """The hidden states of all steps, the last one, and the last cell; gates and states are ``(N, features)``.

    With ``train`` also the workspace: of all steps the gates after their activation, the cells, and their ``tanh``.
    """
    gates = input @ weight0.T
    if has_biases:
        gates = gates + (weight2 + weight3)

    def step(state: tuple[Any, Any], from_input: Any) -> tuple[tuple[Any, Any], Any]:
        hidden, cell = state
        add, forget, candidate, output = jnp.split(hidden @ weight1.T + from_input, 4, 1)
        add, forget, candidate, output = (
            lax.logistic(add),
            lax.logistic(forget),
            lax.tanh(candidate),
            lax.logistic(output),
        )
        cell = forget * cell + add * candidate
        squashed = lax.tanh(cell)
        hidden = output * squashed
        return (hidden, cell), (hidden, (add, forget, candidate, output, cell, squashed) if train else ())

    (hidden, cell), (hiddens, workspace) = lax.scan(step, (hx_, cx_), gates, reverse=reverse)
    return hiddens, hidden, cell, *workspace


def takes(input: Tensor, *others: Tensor) -> bool:
    """Whether oneDNN runs a layer on this input."""
    return (
        mkldnn.enabled
        and input.dtype in (dtypes.float32, dtypes.bfloat16)
        and input.numel() != 0
        and all(x.device.type == "cpu" for x in (input, *others))
    )


def lstm_layer(
    input: Tensor, state: tuple[Tensor, ...], weights: tuple[Tensor, ...], backwards: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One layer in one direction: its outputs, and the hidden state and the cell after the last step."""
    input = input.contiguous()
    has_biases = len(weights) == 4
    if not has_biases:
        weights = (*weights, *[weight.new_zeros(weight.shape) for weight in weights])
    operands = input, *weights, *state
    train = modes.grad and input.dtype is dtypes.float32 and any(map(is_tracked, operands))
    output, hidden, cell, *_ = apply(_layer.operation, operands, (backwards, has_biases, train))
    return output, (hidden, cell)
