"""How losses are reduced: the number that PyTorch's kernels know the reduction by, and its deprecated arguments."""

from typing import Any

from jax import numpy as jnp

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn.reduction import legacy_reduction
from fgrad.torch.ops.reductions.reductions import average, total

NONE, MEAN, SUM = 0, 1, 2
_NUMBERS = {"none": NONE, "mean": MEAN, "sum": SUM}


def current(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction, given as such or by its deprecated arguments."""
    return reduction if size_average is None and reduce is None else legacy_reduction(size_average, reduce)


def number(reduction: str) -> int:
    """The number of a reduction."""
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return MEAN
    if not isinstance(reduction, str) or reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def reduced(values: Any, reduction: int) -> Any:
    """An array's mean or sum, or the array."""
    if reduction == NONE:
        return values
    axes = tuple(range(values.ndim))
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        return jnp.mean(values) if reduction == MEAN else jnp.sum(values)
    return average(values, axes, False) if reduction == MEAN else total(values, axes)


def reduced_tensor(values: Tensor, reduction: int) -> Tensor:
    """A tensor's mean or sum, or the tensor."""
    return values.mean() if reduction == MEAN else values.sum() if reduction == SUM else values
