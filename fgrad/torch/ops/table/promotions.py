"""How the operands' types are promoted to one: the values of ``promote=`` in the table."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from fgrad.mutable.operation.operands import OperandType, promoted
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype
from fgrad.torch.ops.table.broadcasting import derivative

Types = tuple[OperandType, ...]


def common(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands."""
    return promoted(types)


def inexact(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands; the default floating-point type if that is an integer type."""
    dtype = promoted(types)
    return dtype if dtype.is_floating_point or dtype.is_complex else get_default_dtype()


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


def without_factor(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of all operands but the last, which is a factor."""
    return common(types[:-1], params)
