"""What the types of JAX's values say: whether they have tangents, which zeros these have, how they are sharded."""

import contextlib
import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.ref
import numpy as np
from jax import dtypes
from jax.sharding import AbstractMesh, AxisType, NamedSharding, get_abstract_mesh, use_abstract_mesh

from fgrad.jaxcore import ShapedArray, tangent_dtype


def is_inexact(type: ShapedArray) -> bool:
    """Whether values of this type have tangents: floating point, complex, or of an extended dtype that says so."""
    return _is_inexact(type.dtype)


@functools.cache
def _is_inexact(dtype: Any) -> bool:
    if dtypes.issubdtype(dtype, dtypes.extended):
        return ShapedArray((), dtype).to_tangent_aval().dtype != dtypes.float0
    return dtypes.issubdtype(dtype, jax.numpy.inexact)


def is_complex(type: ShapedArray) -> bool:
    """Whether values of this type are complex numbers."""
    return dtypes.issubdtype(type.dtype, np.complexfloating)


def extended_rules(type: ShapedArray) -> Any:
    """The rules of an extended dtype, among them ``zero`` and ``add`` of tangents; None for any other dtype."""
    return type.dtype._rules if dtypes.issubdtype(type.dtype, dtypes.extended) else None


def zeros_of(type: ShapedArray) -> Any:
    """Zeros of a type that has tangents."""
    rules = extended_rules(type)
    return (
        jax.lax.full(type.shape, 0, type.dtype, sharding=explicit_sharding(type))
        if rules is None
        else jax.lax.broadcast(rules.zero(type.dtype), type.shape)
    )


def strong(type: ShapedArray) -> ShapedArray:
    """``type`` as a strong type."""
    return type.update(weak_type=False) if type.weak_type else type


def is_reference(type: Any) -> bool:
    """Whether values of this type are references."""
    return isinstance(type, jax.ref.AbstractRef)


def varying_axes(type: ShapedArray) -> tuple[str, ...]:
    """The mesh axes along which the shards of an array differ, by its type."""
    manual = getattr(type, "mat", None)
    return tuple(sorted(manual.varying)) if manual is not None else ()


def explicit_sharding(type: ShapedArray) -> NamedSharding | None:
    """The sharding that is part of a type; None unless its mesh has an explicit axis."""
    sharding = getattr(type, "sharding", None)
    if not isinstance(sharding, NamedSharding) or AxisType.Explicit not in sharding.mesh.axis_types:
        return None
    return sharding


def mesh_of(types: Iterable[Any]) -> AbstractMesh | None:
    """The mesh of the first of some types that has one."""
    for type in types:
        mesh = getattr(getattr(type, "sharding", None), "mesh", None)
        if mesh is not None and not mesh.empty:
            return mesh.abstract_mesh
    return None


def in_mesh(mesh: AbstractMesh | None) -> contextlib.AbstractContextManager[Any]:
    """The context for operations on values with this mesh: JAX refuses them in that of another one.

    Inside ``jax.sharding.auto_axes`` and ``explicit_axes`` the axes of the mesh have other types than around them.
    """
    current = get_abstract_mesh()
    if mesh is None or current.empty or mesh == current or (mesh.are_all_axes_auto and current.are_all_axes_auto):
        return contextlib.nullcontext()
    return use_abstract_mesh(mesh)


def symbolic_zero(type: ShapedArray) -> Any:
    """JAX's symbolic zero tangent or cotangent for a value of this type."""
    return jax.custom_derivatives.SymbolicZero(ShapedArray(type.shape, tangent_dtype(type.dtype)))


def zero_tangent(value: Any) -> Any:
    """The zero tangent of a primal value: zeros of its dtype, or ``float0`` zeros if it is not inexact."""
    dtype = tangent_dtype(value.dtype)
    if dtype == dtypes.float0:
        return np.zeros(value.shape, dtype)
    type = getattr(value, "aval", value)  # of a value, a symbolic zero, or a type
    if not isinstance(type, ShapedArray):
        type = ShapedArray(value.shape, dtype)
    return zeros_of(type.update(dtype=dtype, weak_type=False))
