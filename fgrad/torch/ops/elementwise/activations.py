"""The activations that are also methods of tensors: ``hardshrink`` and ``prelu``."""

from typing import Any

from jax import numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import OF_TORCH
from fgrad.torch.ops.table.kernels import check_floating, functional, kernel, single, takes
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.ops.table.outputs import FOUND
from fgrad.torch.ops.table.table import Array, Number, composite, operation_of, writes_out


@kernel("HardshrinkBackward0", strides=elementwise, backward_node="HardshrinkBackwardBackward0", always_saved=("self",))
def _hardshrink(input: Array, lambd: Number) -> Any:
    check_floating("hardshrink_cpu", input)
    return choose(jnp.abs(input) <= lambd, jnp.zeros_like(input), input)


@composite()
@functional(dispatch=OF_TORCH)
@writes_out("hardshrink", operation_of(_hardshrink), FOUND)
@takes("hardshrink(input)")
def hardshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """The elements, with those in ``[-lambd, lambd]`` set to zero."""
    if input._type.dtype.is_floating_point:
        check_number(lambd, input._type.dtype)
    return _hardshrink(input, lambd)


@kernel(
    "PreluKernelBackward0",
    strides=elementwise,
    backward_node="PreluKernelBackwardBackward0",
    absent="none",
    gradient_saved_first=True,
    always_saved=("self", "weight"),
)
@single
def _prelu_kernel(input: Array, weight: Array) -> Any:
    check_floating("prelu_cpu", input)
    return choose(input > 0, input, weight * input)


@composite(autocast="lower_precision_fp")
@functional(autocast="lower_precision_fp", dispatch=OF_TORCH)
@takes("prelu(input, weight)")
def prelu(input: Any, weight: Any) -> Tensor:
    """The elements, with the negative ones multiplied by a weight, one for all or one for each channel.

    Source: `torch.nn.functional.prelu
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.prelu.html>`_.
    """
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype.scalar_name} and {weight.dtype.scalar_name}"
        )
    rank = input.dim()
    if weight.numel() != 1:
        if not rank:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.size(1) if rank > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}."
            )
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.dim() != rank:
        weight = weight.reshape([weight.numel() if i == 1 else 1 for i in range(rank)])
    return _prelu_kernel(input, weight)
