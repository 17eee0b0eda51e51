"""A layer of long short-term memory as one operation, which on a CPU PyTorch leaves to oneDNN.

Source: ``mkldnn_rnn_layer`` in PyTorch's aten/src/ATen/native/mkldnn/RNN.cpp.
"""

from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch.backends import mkldnn
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array

_OPERANDS = ("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_")
_RESULTS = ("result0", "result1", "result2")


@overload(
    "mkldnn_rnn_layer",
    "MkldnnRnnLayerBackward0",
    saved=_OPERANDS,
    outputs=_RESULTS,
    kept=(*_OPERANDS, *_RESULTS),
    constants=(("batch_sizes", ()), ("mode", 2)),
    single=True,
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
) -> Any:
    """The hidden states of all steps, the last one, and the last cell; gates and states are ``(N, features)``."""
    gates = input @ weight0.T
    if has_biases:
        gates = gates + (weight2 + weight3)

    def step(state: tuple[Any, Any], from_input: Any) -> tuple[tuple[Any, Any], Any]:
        hidden, cell = state
        add, forget, candidate, output = jnp.split(hidden @ weight1.T + from_input, 4, 1)
        cell = lax.logistic(forget) * cell + lax.logistic(add) * lax.tanh(candidate)
        hidden = lax.logistic(output) * lax.tanh(cell)
        return (hidden, cell), hidden

    (hidden, cell), hiddens = lax.scan(step, (hx_, cx_), gates, reverse=reverse)
    return hiddens, hidden, cell


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
    output, *last = apply(_layer.operation, (input, *weights, *state), (backwards, has_biases))
    return output, tuple(last)
