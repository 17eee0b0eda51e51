"""The elements of arrays in the host's memory, read and replaced through strides.

NOTE [Elements in memory]
The array of a storage is a value: a write points the storage to another one, by a program that puts new elements into a
copy.  Where nobody else holds the array, none can tell whether it was replaced or changed, so a write through a view
changes its elements in place.  Filling a buffer row by row then takes the time of the rows, and not of as many buffers.

- Whoever keeps a value, keeps a reference: what backward has saved, a view's NumPy array, whose ``base`` is the array,
  and JAX, as long as it reads the memory.  So reference counts show whether a storage is the only holder.  If it is
  not, the elements are copied once, and the copy is the storage's own.
- A NumPy array that is a view would keep the whole alive, and the next write would have to copy it.  So few elements of
  many are copied when they are read.
- Arrays are read-only.  Only the window through which elements are replaced can be written.
- A traced array, one on an accelerator, and one in another order than the storage's memory are read and written by
  programs (NOTE [A view is a geometry]).
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.layout.geometry import Geometry, Ints, memory_order, nested
from fgrad.mutable.types.dtypes import bool_
from fgrad.mutable.values.evaluation import NUMPY_SIZE
from fgrad.seam import in_memory

#: from this many elements on, an array is large: a part of at most the share of its elements is copied when it is read
LARGE, SHARE = 1 << 14, 16


class Holder:
    """What holds an array in a slot, as a storage does."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array: Any = array


def _references(holder: Any) -> tuple[int, int]:
    """The reference counts of a holder's array and of the array that owns its memory."""
    return sys.getrefcount(holder.array), sys.getrefcount(holder.array.base)


#: the reference counts of arrays that nobody else holds, as the function above counts them
_OWN, _OWN_BASE = _references(Holder(np.empty(1)[:]))


def in_order(array: np.ndarray, strides: Ints | None) -> np.ndarray:
    """An array with its axes in the order in which a storage's memory has them."""
    return array if strides is None else array.transpose(memory_order(array.shape, strides))


def is_own(storage: Any) -> bool:
    """Whether nobody else holds the array of a storage, or its memory, which has the storage's order."""
    if storage.array.__class__ is not np.ndarray:
        return False
    own, base = _references(storage)
    owner = storage.array.base
    if owner is not None and (owner.__class__ is not np.ndarray or owner.base is not None or not owner.flags.writeable):
        return False
    is_held = own > _OWN or (owner is not None and base > _OWN_BASE)
    return not is_held and in_order(storage.array, storage.strides).flags.c_contiguous


def _make_own(storage: Any) -> None:
    """Copy the array of a storage."""
    array = np.asarray(storage.array)
    memory = np.array(in_order(array, storage.strides), order="C")
    if storage.strides is not None:
        memory = memory.transpose(np.argsort(memory_order(array.shape, storage.strides)))
    memory.setflags(write=False)
    storage.array = memory


def _selects_memory(geometry: Geometry, dtype: Any) -> bool:
    """Whether a geometry's elements are bytes of the memory of a storage of this type, at a known place."""
    return type(geometry.offset) is int and (geometry.dtype is dtype or bool_ not in (geometry.dtype, dtype))


def selected(memory: np.ndarray, geometry: Geometry) -> np.ndarray:
    """The elements that a geometry selects from contiguous memory, as a NumPy view."""
    item = geometry.dtype.itemsize
    strides = tuple([n * item for n in geometry.strides])
    return np.ndarray(geometry.sizes, geometry.dtype.numpy, memory, geometry.offset * item, strides)


def elements(array: Any, strides: Ints | None, dtype: Any, geometry: Geometry) -> np.ndarray | None:
    """The elements that a geometry selects from a storage's array, row-major; None if a program has to read them."""
    if not _selects_memory(geometry, dtype):
        return None
    count = math.prod(geometry.sizes)
    if count > max(array.size, LARGE):
        return None  # more than there is memory for, maybe
    if array.__class__ is not np.ndarray:
        # many elements of a JAX array stay with JAX
        if count > NUMPY_SIZE or not in_memory(array):
            return None
        array = np.asarray(array)
    memory = in_order(array, strides)
    if not memory.flags.c_contiguous:
        return None
    values = np.zeros(geometry.sizes, geometry.dtype.numpy) if 0 in geometry.sizes else selected(memory, geometry)
    if geometry.conj:
        values = np.conjugate(values)
    if geometry.neg:
        values = np.negative(values)
    keeps_all = array.size >= LARGE and count * SHARE <= array.size
    if values.base is not None and (keeps_all or not values.flags.c_contiguous):
        values = values.copy()  # row-major
    values.setflags(write=False)
    return values


def transposed(storage: Any, geometry: Geometry) -> np.ndarray | None:
    """The transpose of a row-major storage's array, if a geometry selects that; None if it does not."""
    array = storage.array
    if array.ndim != 2 or geometry.strides != (1, array.shape[1]) or geometry.sizes != (array.shape[1], array.shape[0]):
        return None
    if geometry.offset or geometry.conj or geometry.neg or geometry.dtype is not storage.dtype:
        return None
    return array.T


def is_replaceable(storage: Any, geometry: Geometry) -> bool:
    """Whether the elements that a geometry selects can be replaced in place, and need no program."""
    array = storage.array
    return (
        (array.__class__ is np.ndarray or in_memory(array))
        and _selects_memory(geometry, storage.dtype)
        and nested(geometry.sizes, geometry.strides)
    )


def window(storage: Any, geometry: Geometry) -> np.ndarray:
    """The elements that a geometry selects, to be replaced.

    Afterwards nobody else holds the storage's array, and it is another object: what is known of one array does not hold
    once its elements have changed.
    """
    if 0 in geometry.sizes:
        return np.empty(geometry.sizes, geometry.dtype.numpy)
    if not is_own(storage):
        _make_own(storage)
    array = storage.array
    array.setflags(write=True)
    result = selected(in_order(array, storage.strides), geometry)
    array = array.view()
    array.setflags(write=False)
    storage.array = array
    return result


class Filling:
    """New elements for all that a geometry selects, through a window on them."""

    __slots__ = ("window", "values", "old")

    def __init__(self, window: np.ndarray, geometry: Geometry, values: Any):
        values = np.negative(values) if geometry.neg else values
        self.window: np.ndarray = window
        self.values: Any = np.conjugate(values) if geometry.conj else values
        self.old: np.ndarray = window.copy()

    def make(self) -> None:
        """Write the new elements."""
        self.window[...] = self.values

    def undo(self) -> None:
        """Put the old ones back."""
        self.window[...] = self.old


@frozen(eq=False)
class Scatter:
    """What a scatter writes to a row-major tensor, in place of the elements that it would have then.

    It holds no elements of the tensor: until they are replaced, backward may save them.
    """

    positions: np.ndarray
    values: np.ndarray
    #: combines values with the elements of a flat array at positions
    write: Callable[[np.ndarray, np.ndarray, np.ndarray], None]


class Scattering:
    """A scatter into elements, through a window on all of them."""

    __slots__ = ("elements", "scatter", "old")

    def __init__(self, window: np.ndarray, scatter: Scatter):
        self.elements: np.ndarray = window.reshape(-1)
        self.scatter: Scatter = scatter
        self.old: np.ndarray = self.elements[scatter.positions]

    def make(self) -> None:
        """Write the new elements."""
        self.scatter.write(self.elements, self.scatter.positions, self.scatter.values)

    def undo(self) -> None:
        """Put the old ones back."""
        self.elements[self.scatter.positions] = self.old
