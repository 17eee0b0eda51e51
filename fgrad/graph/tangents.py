"""Zero tangents and cotangents, also of extended dtypes with tangents of their own."""

from typing import Any

import jax
import numpy as np
from jax import dtypes

from fgrad.jaxcore import ShapedArray, tangent_dtype


def extended_rules(type: ShapedArray) -> Any:
    """The rules of an extended dtype, among them ``zero`` and ``add`` of tangents; None for any other dtype."""
    return type.dtype._rules if dtypes.issubdtype(type.dtype, dtypes.extended) else None


def zeros_of(type: ShapedArray) -> Any:
    """Zeros of a type that has tangents."""
    rules = extended_rules(type)
    return (
        jax.lax.full(type.shape, 0, type.dtype)
        if rules is None
        else jax.lax.broadcast(rules.zero(type.dtype), type.shape)
    )


def symbolic_zero(type: ShapedArray) -> Any:
    """JAX's symbolic zero tangent or cotangent for a value of this type."""
    return jax.custom_derivatives.SymbolicZero(ShapedArray(type.shape, tangent_dtype(type.dtype)))


def zero_tangent(value: Any) -> Any:
    """The zero tangent of a primal value: zeros of its dtype, or ``float0`` zeros if it is not inexact."""
    dtype = tangent_dtype(value.dtype)
    return np.zeros(value.shape, dtype) if dtype == dtypes.float0 else zeros_of(ShapedArray(value.shape, dtype))
