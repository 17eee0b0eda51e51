"""Operands brought together: promoted to one type, broadcast to one shape; and derivative rules that handle neither.

The functions of types are the values of ``promote=`` in the table.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax
import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.layout.geometry import Ints, mismatch
from fgrad.mutable.operation.operands import OperandType, promoted
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype

Types = tuple[OperandType, ...]


def common(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands."""
    return promoted(types)


def inexact(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands; the default floating-point type if that is an integer type."""
    dtype = promoted(types)
    return dtype if dtype.is_floating_point or dtype.is_complex else get_default_dtype()


def without_factor(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of all operands but the last, which is a factor."""
    return common(types[:-1], params)


def without_factors(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of all operands but the last two, which are factors."""
    return common(types[:-2], params)


def check_broadcast(*arrays: Any) -> Ints:
    """The shape to which arrays broadcast.

    Raises:
      RuntimeError: they do not, in PyTorch's words.
    """
    first = arrays[0].shape
    for other in arrays[1:]:
        if (error := mismatch(first, other.shape)) is not None:
            raise error
        first = _joined(first, other.shape)
    return first


def _joined(one: Ints, other: Ints) -> Ints:
    """The shape to which two that fit broadcast; NumPy's function takes no symbols."""
    if len(one) < len(other):
        one, other = other, one
    axes = len(one) - len(other)
    return (*one[:axes], *[m if n == 1 else n for n, m in zip(one[axes:], other, strict=True)])


def number_like(number: Any, like: Any) -> Any:
    """A number of elements, or what follows from such numbers, in the type and shape of an array.

    It may be a symbol: NOTE [Families of graphs].
    """
    known = isinstance(number, int | float)
    scalar = np.asarray(number, like.dtype)[()] if known else lax.convert_element_type(number, like.dtype)
    return lax.broadcast_in_dim(scalar, like.shape, ()) if like.ndim else scalar


def aligned(*arrays: Any) -> list[Any]:
    """The arrays broadcast to one shape."""
    shape = check_broadcast(*arrays)
    return [spread(x, shape, x.dtype) for x in arrays]


def choose(condition: Any, x: Any, y: Any) -> Any:
    """``jnp.where`` without a function for each new shape, which JAX would trace: only the operations in it."""
    dtype = jnp.result_type(x, y)
    strong = [a.dtype for a in (x, y) if not _is_weak(a)]
    if len(strong) < 2 and dtype not in strong:
        return jnp.where(condition, x, y)  # which keeps a weak type
    shape: Ints = jnp.broadcast_shapes(*[np.shape(a) for a in (condition, x, y)])  # type: ignore[assignment]
    condition = spread(condition, shape if np.ndim(condition) else (), np.dtype(np.bool_))
    return lax.select_n(condition, spread(y, shape, dtype), spread(x, shape, dtype))


def _is_weak(x: Any) -> bool:
    return (isinstance(x, int | float | complex) and not isinstance(x, np.generic)) or getattr(x, "weak_type", False)


def spread(x: Any, shape: Ints, dtype: np.dtype) -> Any:
    """An array, or a number, in a type and broadcast to a shape."""
    if not isinstance(x, jax.Array):
        x = np.asarray(x, dtype)[()]
    elif x.dtype != dtype:
        # as in NumPy, a number is true if it is not 0
        x = lax.ne(x, lax.full_like(x, 0)) if dtype == np.bool_ else lax.convert_element_type(x, dtype)
    if x.shape == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))


def sum_to(ct: Any, shape: Sequence[int]) -> Any:
    """The cotangent of an array of a shape from that of the array broadcast."""
    added = ct.ndim - len(shape)
    axes = (*range(added), *[added + i for i, n in enumerate(shape) if n == 1 != ct.shape[added + i]])
    if not axes:
        return ct
    # JAX sums half precision in single
    summed = jnp.sum(ct, axes) if ct.dtype.itemsize <= 2 else lax.reduce_sum(ct, axes)
    return lax.reshape(summed, shape)


def derivative(
    vjp: Callable[..., Any], jvp: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give an elementwise function the pull-back ``vjp(ct, out, *arrays)``, which reads what PyTorch's reads.

    The push-forward is its transpose unless one is given.  Arrays are broadcast outside, so neither handles it.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        ruled = define_rule(function, vjp=vjp, jvp=jvp)
        return wraps(function)(lambda *arrays: ruled(*aligned(*arrays)))

    return enter


def in_float(function: Callable[..., Any], *arrays: Any) -> Any:
    """A function of arrays computed in 32 bits if the elements have 16, as PyTorch does."""
    dtype = arrays[0].dtype
    if dtype.itemsize > 2:
        return function(*arrays)
    return lax.convert_element_type(function(*[lax.convert_element_type(x, np.float32) for x in arrays]), dtype)


def rounded_once(function: Callable[..., Any], pullback: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array that is computed by ``in_float`` for elements of 16 bits.

    For those its derivative is ``pullback(ct, out, x)``, which reads the rounded values as PyTorch's does, not the
    widened ones.
    """
    halves = derivative(pullback)(lambda x: in_float(function, x))
    return lambda x: function(x) if x.dtype.itemsize > 2 else halves(x)
