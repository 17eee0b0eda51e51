"""The few operations that the engine itself runs on gradients."""

from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.operation.operands import cast
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.operation.traits import Computing
from fgrad.mutable.types.dtypes import dtype as Dtype


def _sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    extra = array.ndim - len(shape)
    axes = [*range(extra), *(extra + i for i, n in enumerate(shape) if n == 1 and array.shape[extra + i] != 1)]
    # without a dtype, JAX sums half precision in single and rounds once, as PyTorch does; integers it would widen
    dtype = None if jnp.issubdtype(array.dtype, jnp.inexact) else array.dtype
    return lax.reshape(jnp.sum(array, axes, dtype=dtype), shape)


def _cast(array: Any, dtype: Dtype) -> Any:
    return cast(array, dtype)


def _copy(array: Any, source: Any) -> Any:
    return source


#: ``source`` copied into a new tensor, with the layout of that
COPY = Operation(
    "copy",
    _copy,
    "torch::autograd::CopyBackwards",
    ("self", "src"),
    computing=Computing(strides=lambda operands, shape: operands[0]._geometry_of().strides),
)
ADD = Operation("add", jnp.add, "AddBackward0", ("self", "other"), computing=Computing(strides=elementwise))
SUM_TO = Operation("sum", _sum_to, "SumBackward1", ("self",), ("shape",))
CAST = Operation("_to_copy", _cast, "ToCopyBackward0", ("self",), ("dtype",))
