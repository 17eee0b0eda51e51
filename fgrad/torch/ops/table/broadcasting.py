"""Operands brought together: promoted to one type, broadcast to one shape; and derivative rules that handle neither.

The functions of types are the values of ``promote=`` in the table.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.layout.geometry import mismatch
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


def check_broadcast(*arrays: Any) -> None:
    """Raise PyTorch's error for shapes that do not broadcast."""
    first = arrays[0].shape
    for other in arrays[1:]:
        if (error := mismatch(first, other.shape)) is not None:
            raise error
        first = jnp.broadcast_shapes(first, other.shape)


def aligned(*arrays: Any) -> list[Any]:
    """The arrays broadcast to one shape."""
    check_broadcast(*arrays)
    return jnp.broadcast_arrays(*arrays)


def sum_to(ct: Any, shape: Sequence[int]) -> Any:
    """The cotangent of an array of a shape from that of the array broadcast."""
    ct = jnp.sum(ct, tuple(range(ct.ndim - len(shape))))
    axes = tuple([i for i, n in enumerate(shape) if n == 1 != ct.shape[i]])
    return jnp.sum(ct, axes, keepdims=True)


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
