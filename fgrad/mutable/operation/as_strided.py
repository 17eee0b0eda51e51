"""``as_strided`` on values: the elements of a base that a geometry selects, and the base with these replaced.

The geometries are parameters, but the start of the view is an operand: a loop that writes ``x[0]``, ``x[1]``, ... is
recorded once.  ``located`` makes operand and parameters.  The operations work on the elements of the base as a tensor.
Views, whose values are read from storages, are differentiated through these operations if they have none of their own.
"""

import math
from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import (
    Geometry,
    Layout,
    Lens,
    cached,
    contiguous_strides,
    element_positions,
    extent,
    is_dense,
    lens,
)
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.traits import Gradients
from fgrad.seam import define_rule


def _layout(base: Geometry, view: Geometry) -> Layout | None:
    """The layout of the base as an array containing the view; None if it has gaps, or the view reaches beyond it."""
    span = extent(view.sizes, view.strides, 0)
    holds = view.offset * view.dtype.itemsize >= base.offset * base.dtype.itemsize and (
        (view.offset + span if span else 0) * view.dtype.itemsize
        <= (base.offset + math.prod(base.sizes)) * base.dtype.itemsize
    )
    return Layout(base.sizes, base.strides, base.dtype) if holds and is_dense(base.sizes, base.strides) else None


def _within(base: Geometry, view: Geometry) -> Geometry:
    return Geometry(view.sizes, view.strides, view.offset - base.offset, view.dtype, view.conj, view.neg)


@cached(1 << 14)
def split_offset(base: Geometry, view: Geometry) -> tuple[int, tuple[Geometry, Geometry, Lens | None]]:
    """The start of a view, and the parameters that it shares with views of the same shape and strides.

    These are both geometries, that of the view without its offset, and the lens through which the base's elements are
    seen; without one (the base has gaps, or the view reaches beyond it) the offset counts as a parameter.
    """
    layout = _layout(base, view)
    if layout is None:
        return view.offset, (base, view, None)
    return view.offset, (base, evolve(view, offset=0), lens(layout, _within(base, view))[0])


def _where(through: Lens, start: Any) -> list[Any]:
    """The position of a lens whose first element is ``start``: the starts of its box, or all elements' positions."""
    if through.box is None:
        return [lax.add(lax.broadcast(start, through.sizes), element_positions(through.sizes, through.strides, 0))]
    starts = []
    for step in contiguous_strides(through.box.parent)[:-1]:
        starts.append(lax.div(start, np.int64(step)))
        start = lax.rem(start, np.int64(step))
    return [*starts, start]


def _start(base: Geometry, storage_offset: Any) -> Any:
    return lax.sub(storage_offset, np.int64(base.offset))


def _positions(base: Geometry, view: Geometry) -> np.ndarray:
    """For each element of the view its index among the elements of the base; for one outside the base, their count."""
    if base.dtype is not view.dtype:
        raise NotImplementedError(
            "A view of other element type on a base with gaps has no derivative here; clone() it."
        )
    of_base = element_positions(base.sizes, base.strides, base.offset).reshape(-1)
    order = np.argsort(of_base, kind="stable")
    if not len(order):
        return np.zeros(view.sizes, np.int64)
    positions = element_positions(view.sizes, view.strides, view.offset)
    indices = order[np.minimum(np.searchsorted(of_base, positions, sorter=order), len(order) - 1)]
    return np.where(of_base[indices] == positions, indices, len(order))


def _as_strided(array: Any, storage_offset: Any, base: Geometry, view: Geometry, through: Lens | None) -> Any:
    if through is not None:
        return through.get(array, _where(through, _start(base, storage_offset)))
    positions, flat = _positions(base, view), lax.reshape(array, (math.prod(base.sizes),))
    if not flat.size:
        return lax.full(view.sizes, 0, array.dtype)

    def read(flat: Any) -> Any:
        return jnp.take(flat, positions, axis=0, mode="fill", fill_value=0)

    of_base = element_positions(base.sizes, base.strides, base.offset).reshape(-1)
    _, first, alike, counts = np.unique(of_base, return_index=True, return_inverse=True, return_counts=True)
    if len(counts) == len(of_base):
        return read(flat)

    def shared(ct: Any, _: Any) -> tuple[Any]:
        """Split the gradient equally among elements of the base that share memory, as PyTorch does."""
        total = jnp.zeros(flat.shape, ct.dtype).at[positions.reshape(-1)].add(lax.reshape(ct, (ct.size,)), mode="drop")
        return ((total[first] / counts.astype(ct.dtype))[alike],)

    return define_rule(read, transpose=shared)(flat)


def _as_strided_copy(
    array: Any, stored: Any, storage_offset: Any, base: Geometry, view: Geometry, through: Lens | None
) -> Any:
    """The elements of a view, which may reach beyond the base; ``stored`` is read from the storage."""
    elements = _as_strided(array, storage_offset, base, view, through)
    return elements if through else jnp.where(_positions(base, view) < math.prod(base.sizes), elements, stored)


def _as_strided_scatter(
    array: Any, part: Any, storage_offset: Any, base: Geometry, view: Geometry, through: Lens | None
) -> Any:
    if through is None:
        flat = lax.reshape(array, (math.prod(base.sizes),))
        flat = flat.at[_positions(base, view).reshape(-1)].set(lax.reshape(part, (math.prod(view.sizes),)), mode="drop")
        return lax.reshape(flat, base.sizes)
    return through.put(array, _where(through, _start(base, storage_offset)), part)


def _part(
    gradient: Geometry, storage_offset: int, base: Geometry, view: Geometry, through: Lens | None
) -> Geometry | None:
    """The geometry of the replaced part's gradient in the gradient of the base, if that has the base's layout."""
    same = (gradient.sizes, gradient.strides, gradient.offset) == (base.sizes, base.strides, base.offset)
    if not same or base.dtype is not view.dtype or view.conj or view.neg:
        return None
    return evolve(gradient, sizes=view.sizes, strides=view.strides, offset=storage_offset)


_PARAMETERS = ("base", "view", "through")
AS_STRIDED = Operation(
    "as_strided",
    _as_strided,
    "AsStridedBackward0",
    ("self", "storage_offset"),
    _PARAMETERS,
    frozenset((1,)),
    gradients=Gradients(passing="copy"),
)
AS_STRIDED_COPY = Operation(
    "as_strided_copy",
    _as_strided_copy,
    "AsStridedBackward0_copy",
    ("self", "view", "storage_offset"),
    _PARAMETERS,
    frozenset((1, 2)),
)
AS_STRIDED_SCATTER = Operation(
    "as_strided_scatter",
    _as_strided_scatter,
    "AsStridedScatterBackward0",
    ("self", "src", "storage_offset"),
    _PARAMETERS,
    frozenset((2,)),
    gradients=Gradients(views={"src": _part}),
)


def viewed_geometry(g: Geometry, storage_offset: int, base: Geometry, view: Geometry, through: Lens | None) -> Geometry:
    """The geometry of a view, from operand and parameters as made by ``located``."""
    return evolve(view, offset=storage_offset)
