"""The arguments of a graph: their types, from examples, and the conversion of values to these types."""

from typing import Any

import jax
import numpy as np

from fgrad import errors
from fgrad.api.arguments import leaves
from fgrad.graph.text import type_text
from fgrad.jaxcore import ShapedArray, Tracer, as_typed, copied, primitive, tangent_dtype, typeof, with_x64


def type_of(x: Any, path: str) -> ShapedArray:
    """The type of an example argument."""
    if isinstance(x, jax.ShapeDtypeStruct | ShapedArray):
        return _canonical(x)
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        return typeof(x)
    (value,) = leaves(x, path, "make_graph").values
    return typeof(value)


def _canonical(x: Any) -> ShapedArray:
    """The type of an abstract example, with 64 bits only if JAX allows that."""
    if x.dtype == jax.dtypes.float0:
        return ShapedArray(x.shape, x.dtype)
    return ShapedArray(x.shape, jax.dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True), bool(x.weak_type))


def tangent_of(x: Any) -> jax.ShapeDtypeStruct:
    """The type of tangents of values of a type."""
    return jax.ShapeDtypeStruct(x.shape, tangent_dtype(x.dtype))


def fitted(value: Any, kind: ShapedArray, path: str) -> Any:
    """A value with exactly the type of its input: only weakness is adapted, and Python numbers to the dtype.

    If JAX has no 64-bit types, an input of 64 bits accepts the 32-bit array that JAX makes.
    """
    narrow = jax.dtypes.canonicalize_dtype(kind.dtype, allow_extended_dtype=True)
    if narrow == kind.dtype:
        return _fitted(value, kind, path)
    if isinstance(value, Tracer | jax.Array | np.ndarray):
        got = typeof(as_typed(value))
        if got.dtype in (kind.dtype, narrow) and got.shape == kind.shape:
            return with_x64(jax.numpy.asarray, as_typed(value), kind.dtype)
    return with_x64(_fitted, value, kind, path)


def _fitted(value: Any, kind: ShapedArray, path: str) -> Any:
    if not isinstance(value, Tracer | jax.Array):
        (value,) = leaves(value, path, "a graph").values
    got = typeof(value)
    if got == kind:
        return value
    fits = got.shape == kind.shape and (
        got.dtype == kind.dtype or (got.weak_type and jax.numpy.result_type(value, kind.dtype) == kind.dtype)
    )
    if not fits:
        raise errors.graph_argument(path, type_text(kind), type_text(got))
    if got.dtype == kind.dtype and got.weak_type == kind.weak_type:
        return value  # another sharding
    if not isinstance(value, Tracer | jax.Array):
        value = copied(np.asarray(value))
    return primitive("convert_element_type").bind(value, new_dtype=kind.dtype, weak_type=kind.weak_type, sharding=None)
