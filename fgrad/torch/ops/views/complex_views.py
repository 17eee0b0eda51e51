"""Views of the parts of complex numbers, and of their conjugates."""

from typing import Any

from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bfloat16
from fgrad.torch.ops.table.dispatch import UNLISTED_METHOD
from fgrad.torch.ops.table.table import Array, composite, view
from fgrad.torch.ops.views.views import _select

# -- parts of complex numbers ----------------------------------------------------------------------------------------


def _real_pairs(g: Geometry) -> Geometry:
    return evolve(
        g,
        sizes=(*g.sizes, 2),
        strides=(*(2 * s for s in g.strides), 1),
        offset=2 * g.offset,
        dtype=g.dtype.to_real(),
        conj=False,
    )


def _view_as_real_geometry(g: Geometry) -> Geometry:
    if not g.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if g.conj:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the "
            "original."
        )
    return _real_pairs(g)


@view("ViewAsRealBackward0", _view_as_real_geometry)
def view_as_real(input: Array) -> Any:
    """Complex numbers as pairs of real ones, as a view."""
    return jnp.stack([lax.real(input), lax.imag(input)], -1)


def _view_as_complex_geometry(g: Geometry) -> Geometry:
    if not g.dtype.is_floating_point or g.dtype is bfloat16:
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{g.dtype.scalar_name}"
        )
    if not g.sizes:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if g.sizes[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if g.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in g.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if g.offset % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return evolve(
        g,
        sizes=g.sizes[:-1],
        strides=tuple([s // 2 for s in g.strides[:-1]]),
        offset=g.offset // 2,
        dtype=g.dtype.to_complex(),
    )


@view("ViewAsComplexBackward0", _view_as_complex_geometry, autocast="fp32")
def view_as_complex(input: Array) -> Any:
    """Pairs of real numbers as complex ones, as a view."""
    return lax.complex(input[..., 0], input[..., 1])


@composite(method=False)
def real(input: Any) -> Tensor:
    """The real parts, as a view; a real tensor itself."""
    if not input._type.dtype.is_complex:
        return input
    resolved = _conj(input) if input._geometry_of().conj else input
    return _select(view_as_real(resolved), 0, -1)


@composite(method=False)
def imag(input: Any) -> Tensor:
    """The imaginary parts, as a view."""
    if not input._type.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if input._geometry_of().conj:
        return _select(_neg_view(view_as_real(_conj(input))), 1, -1)
    return _select(view_as_real(input), 1, -1)


@view("ConjBackward0", lambda g: evolve(g, conj=not g.conj), name="_conj", function=False, dispatch=UNLISTED_METHOD)
def _conj(input: Array) -> Any:
    return lax.conj(input)


@composite()
def conj(input: Any) -> Tensor:
    """The complex conjugate, as a view; a real tensor itself."""
    return _conj(input) if input._type.dtype.is_complex else input


@view(
    "NegViewBackward0", lambda g: evolve(g, neg=not g.neg), name="_neg_view", function=False, dispatch=UNLISTED_METHOD
)
def _neg_view(input: Array) -> Any:
    return lax.neg(input)
