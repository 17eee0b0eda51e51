"""``as_strided`` between values: the elements of a base that a geometry names, and the base with those replaced.

Both geometries are parameters, and the operations work on the base's elements as a tensor has them.  The views, whose
values are read from storages, differentiate through these where no operation of their own says more.
"""

import math
from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.torch.core.geometry import Geometry, Layout, extent, is_dense, lens, places
from fgrad.torch.core.operation import Operation


def _layout(base: Geometry, view: Geometry) -> Layout | None:
    """The base as an array that holds the view; None if it has gaps, or the view reaches beyond it."""
    holds = view.offset * view.dtype.itemsize >= base.offset * base.dtype.itemsize and (
        extent(view.sizes, view.strides, view.offset) * view.dtype.itemsize
        <= (base.offset + math.prod(base.sizes)) * base.dtype.itemsize
    )
    return Layout(base.sizes, base.strides, base.dtype) if holds and is_dense(base.sizes, base.strides) else None


def _within(base: Geometry, view: Geometry) -> Geometry:
    return Geometry(view.sizes, view.strides, view.offset - base.offset, view.dtype, view.conj, view.neg)


def _positions(base: Geometry, view: Geometry) -> np.ndarray:
    """For each element of the view its number among the elements of the base; of one outside of it, their count."""
    if base.dtype is not view.dtype:
        raise NotImplementedError(
            "A view of other element type on a base with gaps has no derivative here; clone() it."
        )
    of_base = places(base.sizes, base.strides, base.offset).reshape(-1)
    order = np.argsort(of_base, kind="stable")
    wanted = places(view.sizes, view.strides, view.offset)
    found = order[np.minimum(np.searchsorted(of_base, wanted, sorter=order), len(order) - 1)]
    return np.where(of_base[found] == wanted, found, len(order))


def _as_strided(array: Any, base: Geometry, view: Geometry) -> Any:
    layout = _layout(base, view)
    if layout is not None:
        through, where = lens(layout, _within(base, view))
        return through.get(array, where)
    positions, flat = _positions(base, view), lax.reshape(array, (math.prod(base.sizes),))

    def read(flat: Any) -> Any:
        return jnp.take(flat, positions, axis=0, mode="fill", fill_value=0)

    of_base = places(base.sizes, base.strides, base.offset).reshape(-1)
    _, first, alike, counts = np.unique(of_base, return_index=True, return_inverse=True, return_counts=True)
    if len(counts) == len(of_base):
        return read(flat)

    def shared(ct: Any, _: Any) -> tuple[Any]:
        """Elements of the base that are one in memory have equal parts in its gradient, as in PyTorch."""
        total = jnp.zeros(flat.shape, ct.dtype).at[positions.reshape(-1)].add(lax.reshape(ct, (ct.size,)), mode="drop")
        return ((total[first] / counts.astype(ct.dtype))[alike],)

    return define_rule(read, transpose=shared)(flat)


def _as_strided_copy(array: Any, seen: Any, base: Geometry, view: Geometry) -> Any:
    """What a view shows, of which the base's elements may be a part only; ``seen`` is read from the storage."""
    found = _as_strided(array, base, view)
    return found if _layout(base, view) else jnp.where(_positions(base, view) < math.prod(base.sizes), found, seen)


def _as_strided_scatter(array: Any, part: Any, base: Geometry, view: Geometry) -> Any:
    layout = _layout(base, view)
    if layout is None:
        flat = lax.reshape(array, (math.prod(base.sizes),))
        flat = flat.at[_positions(base, view).reshape(-1)].set(lax.reshape(part, (math.prod(view.sizes),)), mode="drop")
        return lax.reshape(flat, base.sizes)
    through, where = lens(layout, _within(base, view))
    return through.put(array, where, part)


def _part(gradient: Geometry, base: Geometry, view: Geometry) -> Geometry | None:
    """Where the gradient of what was put in lies in the gradient of the whole, if that is as the base was."""
    same = (gradient.sizes, gradient.strides, gradient.offset) == (base.sizes, base.strides, base.offset)
    if not same or base.dtype is not view.dtype or view.conj or view.neg:
        return None
    return evolve(gradient, sizes=view.sizes, strides=view.strides, offset=view.offset)


AS_STRIDED = Operation("as_strided", _as_strided, "AsStridedBackward0", ("self",), ("base", "view"))
AS_STRIDED_COPY = Operation(
    "as_strided_copy", _as_strided_copy, "AsStridedBackward0_copy", ("self", "view"), ("base", "view"), frozenset((1,))
)
AS_STRIDED_SCATTER = Operation(
    "as_strided_scatter",
    _as_strided_scatter,
    "AsStridedScatterBackward0",
    ("self", "src"),
    ("base", "view"),
    gradient_views={"src": _part},
)
