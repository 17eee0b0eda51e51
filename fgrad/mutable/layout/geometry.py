"""The geometry of a tensor in its storage: sizes, strides, offset; and the lens that reads and writes there.

NOTE [A view is a geometry]
A storage holds one immutable array.  A view is a storage and a geometry: which of its elements, in which order.
Reading through a view *gets* the elements that the geometry selects; writing *puts* new ones into the whole array,
giving a new array to which the storage then points.  Both follow from the numbers alone, once per pair of geometries:
whatever chain of ``select``, ``t`` and ``as_strided`` made a view, the result is one slice, reshape and transpose if
the strides nest, and a gather if they do not.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from jax import lax, numpy as jnp

from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.symbolic import SymbolicNumber, place

Ints = tuple[int, ...]


@lru_cache(1 << 14)
def contiguous_strides(sizes: Ints) -> Ints:
    """The row-major strides of a shape, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@lru_cache(1 << 14)
def is_contiguous(sizes: Ints, strides: Ints) -> bool:
    """Whether elements with these strides are in row-major order without gaps (size-1 axes may have any stride)."""
    if 0 in sizes:
        return True
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


@lru_cache(1 << 14)
def memory_order(sizes: Ints, strides: Ints) -> Ints:
    """The axes from the slowest to the fastest in memory, for a dense layout."""
    return tuple(sorted(range(len(sizes)), key=lambda i: (-strides[i], i)))


@lru_cache(1 << 14)
def is_dense(sizes: Ints, strides: Ints) -> bool:
    """Whether the elements fill a block of memory without gaps or overlaps, in any order."""
    if 0 in sizes:
        return True
    order = [i for i in memory_order(sizes, strides) if sizes[i] != 1]
    step = 1
    for i in reversed(order):
        if strides[i] != step:
            return False
        step *= sizes[i]
    return True


@lru_cache(1 << 14)
def overlaps(sizes: Ints, strides: Ints) -> bool:
    """Whether elements share a memory location, as PyTorch tests it: an axis of stride 0 with more than one element."""
    return 0 not in sizes and any(size > 1 and stride == 0 for size, stride in zip(sizes, strides, strict=True))


@lru_cache(1 << 14)
def nested(sizes: Ints, strides: Ints) -> bool:
    """Whether sizes and strides alone show that no two elements overlap: each exceeds the reach of all smaller ones."""
    if 0 in sizes:
        return True
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride <= reach:
                return False
            reach += (size - 1) * stride
    return True


@lru_cache(1 << 14)
def extent(sizes: Ints, strides: Ints, offset: int) -> int:
    """How many elements a storage must hold."""
    if 0 in sizes:
        return 0
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


@lru_cache(1 << 14)
def viewed_strides(sizes: Ints, strides: Ints, shape: Ints) -> Ints | None:
    """The strides that give the same memory another shape; None if there are none (PyTorch: computeStride)."""
    if 0 in sizes:
        return strides if sizes == shape else contiguous_strides(shape)
    if not sizes:
        return (1,) * len(shape)
    new = [0] * len(shape)
    at = len(shape) - 1
    base = strides[-1]
    chunk = inner = 1
    for i in range(len(sizes) - 1, -1, -1):
        chunk *= sizes[i]
        if i == 0 or (sizes[i - 1] != 1 and strides[i - 1] != chunk * base):
            while at >= 0 and (inner < chunk or shape[at] == 1):
                new[at] = inner * base
                inner *= shape[at]
                at -= 1
            if inner != chunk:
                return None
            if i:
                base = strides[i - 1]
                chunk = inner = 1
    return tuple(new) if at == -1 else None


@frozen(cache_hash=True)
class Geometry:
    """Sizes, strides and offset in elements of ``dtype``; ``conj`` and ``neg`` conjugate or negate on reading."""

    sizes: Ints
    strides: Ints
    offset: int = field(eq=place)
    dtype: Dtype
    conj: bool = False
    neg: bool = False

    @property
    def contiguous(self) -> bool:
        return is_contiguous(self.sizes, self.strides)


@frozen(cache_hash=True)
class Layout:
    """The memory layout of a storage's array: its shape and dense strides, and the type of its elements."""

    sizes: Ints
    strides: Ints
    dtype: Dtype


def cached(size: int) -> Callable[[Callable[[Any, Geometry], Any]], Callable[[Any, Geometry], Any]]:
    """A decorator that caches a function of a geometry and something else, unless the geometry has a symbolic offset.

    See NOTE [Symbolic numbers]; these belong to one recording.
    """

    def decorator(function: Callable[[Any, Geometry], Any]) -> Callable[[Any, Geometry], Any]:
        kept = lru_cache(size)(function)

        @wraps(function)
        def call(of: Any, geometry: Geometry) -> Any:
            return (function if isinstance(geometry.offset, SymbolicNumber) else kept)(of, geometry)

        return call

    return decorator


# -- the lens --------------------------------------------------------------------------------------------------------


@frozen(cache_hash=True)
class Lens:
    """How a geometry is read from and written to arrays of a layout.

    ``starts`` are the start indices of its box: inputs of the program, so that ``x[0]``, ``x[1]``, ... share one.  If
    the strides do not nest, there is no box, and the positions of all elements are the input.
    """

    layout: Layout
    dtype: Dtype
    sizes: Ints
    strides: Ints
    conj: bool
    neg: bool
    box: "Box | None"

    def get(self, array: Any, where: Any) -> Any:
        """The elements of a storage's array that the geometry selects."""
        flat = _elements(_flat(array, self.layout), self.layout.dtype, self.dtype)
        elements = self._read(flat, where)
        if self.conj:
            elements = lax.conj(elements)
        return lax.neg(elements) if self.neg else elements

    def put(self, array: Any, where: Any, value: Any) -> Any:
        """A storage's array with the elements that the geometry selects replaced by ``value``."""
        if self.neg:
            value = lax.neg(value)
        if self.conj:
            value = lax.conj(value)
        old = _flat(array, self.layout)
        flat = _elements(old, self.layout.dtype, self.dtype)
        new = _elements(self._replace(flat, where, value), self.dtype, self.layout.dtype)
        count = new.shape[0]
        if count < old.shape[0]:  # what is left makes no larger element
            new = lax.concatenate([new, old[count:]], 0)
        return _shaped(new, self.layout)

    def _read(self, flat: Any, where: Any) -> Any:
        if 0 in self.sizes:
            return lax.full(self.sizes, 0, flat.dtype)
        box = self.box
        if box is None:
            return jnp.take(flat, where[0], axis=0, mode="clip")
        parent = lax.reshape(_sized(flat, math.prod(box.parent)), box.parent)
        elements = lax.dynamic_slice(parent, where, box.sizes, allow_negative_indices=False)
        elements = lax.reshape(elements, box.sizes[:-1])
        elements = lax.reshape(lax.transpose(elements, box.order), box.shape)
        return (
            elements if box.shape == self.sizes else lax.broadcast_in_dim(elements, self.sizes, range(len(self.sizes)))
        )

    def _replace(self, flat: Any, where: Any, value: Any) -> Any:
        if 0 in self.sizes:
            return flat
        box = self.box
        if box is None or overlaps(self.sizes, self.strides):
            at = (
                where[0]
                if box is None
                else element_positions(self.sizes, self.strides, 0)
                + sum(start * step for start, step in zip(where, contiguous_strides(box.parent), strict=True))
            )
            return flat.at[at.reshape(-1)].set(lax.reshape(value, (math.prod(self.sizes),)))
        count = math.prod(box.parent)
        inner = tuple([box.sizes[k] for k in box.order])
        update = lax.transpose(lax.reshape(value, inner), tuple(np.argsort(box.order).tolist()))
        update = lax.reshape(update, box.sizes)
        if box.sizes == box.parent:
            parent = update
        else:
            parent = lax.reshape(_sized(flat, count), box.parent)
            parent = lax.dynamic_update_slice(parent, update, where, allow_negative_indices=False)
        new = lax.reshape(parent, (count,))
        have = flat.shape[0]
        if count == have:
            return new
        return (
            lax.slice(new, (0,), (have,))
            if count > have
            else lax.dynamic_update_slice(flat, new, [np.int32(0)], allow_negative_indices=False)
        )


@cached(1 << 14)
def lens(layout: Layout, geometry: Geometry) -> tuple[Lens, tuple[Any, ...]]:
    """The lens of a geometry on a layout, and its position: the starts of its box, or the positions of all elements."""
    size = math.prod(layout.sizes) * layout.dtype.itemsize // geometry.dtype.itemsize
    boxed = _box(geometry.sizes, geometry.strides, geometry.offset, size)
    box, where = (
        (None, (element_positions(geometry.sizes, geometry.strides, geometry.offset),)) if boxed is None else boxed
    )
    result = Lens(layout, geometry.dtype, geometry.sizes, geometry.strides, geometry.conj, geometry.neg, box)
    return result, where


def _flat(array: Any, layout: Layout) -> Any:
    order = memory_order(layout.sizes, layout.strides)
    if order != tuple(range(len(order))):
        array = lax.transpose(array, order)
    return lax.reshape(array, (math.prod(layout.sizes),))


def _shaped(flat: Any, layout: Layout) -> Any:
    order = memory_order(layout.sizes, layout.strides)
    array = lax.reshape(flat, tuple([layout.sizes[i] for i in order]))
    inverse = tuple(np.argsort(order).tolist())
    return array if inverse == tuple(range(len(inverse))) else lax.transpose(array, inverse)


def _elements(flat: Any, old: Dtype, new: Dtype) -> Any:
    """The same memory as elements of another type (``Tensor.view(dtype)``, ``view_as_real`` and its inverse)."""
    if old is new:
        return flat
    if old.is_complex:
        real = jnp.stack([lax.real(flat), lax.imag(flat)], -1)
        return _elements(lax.reshape(real, (2 * flat.shape[0],)), old.to_real(), new)
    if new.is_complex:
        real = _elements(flat, old, new.to_real())
        count = real.shape[0] // 2
        real = lax.reshape(real[: 2 * count], (count, 2))
        return lax.complex(real[:, 0], real[:, 1])
    if old.itemsize == new.itemsize:
        return _bitcast(flat, new)
    if old.itemsize > new.itemsize:
        return lax.reshape(_bitcast(flat, new), (flat.shape[0] * (old.itemsize // new.itemsize),))
    ratio = new.itemsize // old.itemsize
    return _bitcast(lax.reshape(flat[: flat.shape[0] // ratio * ratio], (flat.shape[0] // ratio, ratio)), new)


def _bitcast(array: Any, new: Dtype) -> Any:
    if array.dtype == np.bool_:
        array = lax.convert_element_type(array, np.uint8)
    if new.numpy == np.bool_:
        bytes = lax.bitcast_convert_type(array, np.uint8)
        return lax.ne(bytes, lax.full_like(bytes, 0))
    return lax.bitcast_convert_type(array, new.numpy)


@frozen
class Box:
    """A geometry as a box in a row-major array: reshape to ``parent``, slice the box, bring its axes in order."""

    parent: Ints
    sizes: Ints
    #: the axes of the box (size-1 axes left out) in the order of the geometry, and the shape with size-1 axes
    order: Ints
    shape: Ints


def _box(sizes: Ints, strides: Ints, offset: int, count: int) -> tuple[Box, tuple[int, ...]] | None:
    """The box of a geometry in ``count`` elements and its starts, if its strides nest: each divides the next larger."""
    axes = sorted([i for i, size in enumerate(sizes) if size > 1 and strides[i] > 0], key=lambda i: -strides[i])
    steps = [strides[i] for i in axes]
    if any(a % b or a == b for a, b in pairwise(steps)):
        return None
    parent, starts, rest = [], [], offset
    for k, step in enumerate(steps):
        position, rest = divmod(rest, step)
        parent.append(-(-count // step) if k == 0 else steps[k - 1] // step)
        starts.append(position)
        if position + sizes[axes[k]] > parent[-1]:
            return None
    parent.append(steps[-1] if steps else count)
    starts.append(rest)
    rank = {axis: k for k, axis in enumerate(axes)}
    order = tuple([rank[i] for i in sorted(axes)])
    shape = tuple([size if strides[i] > 0 else 1 for i, size in enumerate(sizes)])
    box = Box(tuple(parent), (*(sizes[i] for i in axes), 1), order, shape)
    return box, tuple(starts)


def expanded(geometry: Geometry, sizes: Ints) -> Geometry:
    """A geometry broadcast to a shape."""
    extra = len(sizes) - len(geometry.sizes)
    dims = zip(geometry.sizes, geometry.strides, strict=True)
    strides = (0,) * extra + tuple([0 if n == 1 else stride for n, stride in dims])
    return evolve(geometry, sizes=sizes, strides=strides)


def element_positions(sizes: Ints, strides: Ints, offset: int) -> np.ndarray:
    """The position in memory of every element."""
    positions = np.full(sizes, offset, np.int64)
    for axis, stride in enumerate(strides):
        positions = positions + (np.arange(sizes[axis]) * stride).reshape(
            [-1 if i == axis else 1 for i in range(len(sizes))]
        )
    return positions


def _sized(flat: Any, count: int) -> Any:
    """A flat array cut or padded to a length: a box may end in the midst of its last row."""
    have = flat.shape[0]
    if have > count:
        return lax.slice(flat, (0,), (count,))
    return lax.pad(flat, lax.full((), 0, flat.dtype), ((0, count - have, 0),)) if have < count else flat


def mismatch(one: Sequence[Any], other: Sequence[Any]) -> RuntimeError | None:
    """PyTorch's error for two shapes that do not broadcast; None where they do."""
    for from_end in range(1, min(len(one), len(other)) + 1):
        a, b = one[-from_end], other[-from_end]
        if a != b and 1 not in (a, b):
            return RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension "
                f"{max(len(one), len(other)) - from_end}"
            )
    return None
