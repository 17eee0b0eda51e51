"""Storages and version counters: the two mutable cells under the whole layer.

NOTE [Version sharing]
A write points a storage to a new array and bumps the version counter of the tensor that was written.  The
counter is a separate object, because it is not always shared along with the storage: a view and ``detach()`` share both
with their base, so a write through either is noticed by nodes that saved it; ``.data`` shares the storage but has a
counter of its own, so a write through it is *not* noticed (PyTorch: torch/csrc/autograd/variable.h, "Version counter").
A counter also remembers the last writes, for error messages.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from fgrad.mutable.layout.geometry import Geometry, Ints, Layout, Lens, contiguous_strides, lens
from fgrad.mutable.layout.reading import reading
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.symbolic import SymbolicNumber, as_array
from fgrad.mutable.values.capacity import check_room, checked_for_capacity
from fgrad.mutable.values.deferral import Deferred, defer
from fgrad.mutable.values.device_of_value import Absent
from fgrad.mutable.values.evaluation import Routine, array_type, constant, recorded
from fgrad.seam import RawSource, simplify

#: how many of the last writes a counter remembers
WRITES_KEPT = 16


class Write(NamedTuple):
    """One write: the new version, the operation, the user's line, and the kind of handle it went through.

    A tuple for speed: every write makes one.
    """

    version: int
    operation: str
    source: RawSource | None
    through: str


#: faster than the named tuple's own constructor, a Python function
_new_tuple: Callable[..., Any] = tuple.__new__


class RepeatedWrites:
    """The last writes of a counter that compiled calls keep writing in the same way, without noting each.

    Attributes:
      write: the first of these; later versions without an entry were made the same way.
      entries: other writes.
    """

    __slots__ = ("write", "entries")

    def __init__(self, write: Write, entries: Iterable[Write]):
        self.write: Write = write
        self.entries: deque[Write] = deque(entries, maxlen=WRITES_KEPT)

    def append(self, write: Write) -> None:
        self.entries.append(write)

    def copy(self) -> "RepeatedWrites":
        return RepeatedWrites(self.write, self.entries)

    def until(self, version: int) -> list[Write]:
        """The last writes up to a version."""
        noted = {write.version: write for write in self.entries}
        first = max(self.write.version, version - WRITES_KEPT + 1)
        noted |= {v: self.write._replace(version=v) for v in range(first, version + 1) if v not in noted}
        return [noted[v] for v in sorted(noted)][-WRITES_KEPT:]


class VersionCounter:
    """The number of writes to the tensors that share it, and the last of these writes."""

    __slots__ = ("value", "writes")

    def __init__(self) -> None:
        self.value: int = 0
        self.writes: deque[Write] | RepeatedWrites | None = None

    def bump(self, operation: str, source: RawSource | None, through: str, writes: int = 1) -> None:
        for _ in range(writes):
            self.value += 1
            if self.writes is None:
                self.writes = deque(maxlen=WRITES_KEPT)
            self.writes.append(_new_tuple(Write, (self.value, operation, source, through)))

    def settle(self) -> None:
        """Take the value back from an owner, if there is one: see NOTE [Owned tensors]."""

    def last_writes(self) -> list[Write]:
        """The last writes that are remembered."""
        writes = self.writes
        if writes is None:
            return []
        return writes.until(self.value) if writes.__class__ is RepeatedWrites else list(writes)  # type: ignore[union-attr]


class Storage:
    """A cell that holds one immutable array; tensors that share it share memory.

    The array has the shape of the tensor that made the storage; ``strides`` are that tensor's when they are not the
    row-major ones.  Element ``i`` of memory is the ``i``-th element of the array in the order of its strides.
    """

    __slots__ = ("array", "strides", "dtype", "home", "memory", "__weakref__")

    def __init__(self, array: Any, dtype: Dtype, strides: Ints | None = None):
        self.array: Any = array
        self.strides: Ints | None = strides
        self.dtype: Dtype = dtype
        #: the geometry of the tensor that made it, once a resize has changed the array's shape
        self.home: Geometry | None = None
        #: the exported memory, if any: see NOTE [Exported memory]
        self.memory: Any = None

    @property
    def layout(self) -> Layout:
        return _layout(self.array.shape, self.strides, self.dtype)

    @property
    def count(self) -> int:
        """How many elements it holds."""
        return math.prod(self.array.shape)

    def holding(self, array: Any) -> "Storage":
        """Another storage of the same layout, with this array."""
        other = Storage(array, self.dtype, self.strides)
        other.home = self.home
        return other

    def read(self, geometry: Geometry) -> Any:
        """The elements that a geometry selects."""
        array = self.array
        lenses = _getting.__wrapped__ if isinstance(geometry.offset, SymbolicNumber) else _getting
        routine, where = lenses(array.shape, self.strides, self.dtype, geometry)
        return routine((array, *where))[0]

    def write(self, geometry: Geometry, value: Any) -> None:
        """Point to an array with the elements that a geometry selects replaced."""
        array = self.array
        lenses = _putting.__wrapped__ if isinstance(geometry.offset, SymbolicNumber) else _putting
        routine, where = lenses(array.shape, self.strides, self.dtype, geometry)
        self.array = routine((array, *where, value))[0]

    def settle(self) -> None:
        """Take the array back from an owner, if there is one: see NOTE [Owned tensors]."""

    def resize(self, count: int) -> None:
        """Resize to ``count`` elements, flat; old elements stay, new ones are zero.

        Raises:
          RuntimeError: there is not enough memory.
        """
        if self.array.__class__ is not Absent:
            check_room(count * self.dtype.itemsize)
        layout = self.layout
        have = math.prod(layout.sizes)
        if self.home is None:
            self.home = Geometry(layout.sizes, layout.strides, 0, self.dtype)
        flat = self.read(Geometry((min(have, count),), (1,), 0, self.dtype))
        self.array, self.strides = _grown(min(have, count), count, self.dtype)((flat,))[0], None


#: the slot that the property of the class below shadows
_array: Any = Storage.__dict__["array"]


class DeferredStorage(Storage):
    """A storage whose array may not have been computed yet: see NOTE [Large operations wait]."""

    __slots__ = ()

    @property
    def waiting(self) -> Any:
        """The array, or its placeholder, for ``defer``."""
        return _array.__get__(self)

    @property
    def array(self) -> Any:
        value = _array.__get__(self)
        if value.__class__ is Deferred:
            array = value.array()
            _settle(self, value, array)
            return array
        return value

    @array.setter
    def array(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        _array.__set__(self, value)
        if value.__class__ is not Deferred:
            self.__class__ = Storage  # type: ignore[assignment]

    @property
    def layout(self) -> Layout:
        return _layout(_array.__get__(self).shape, self.strides, self.dtype)

    @property
    def count(self) -> int:
        return math.prod(_array.__get__(self).shape)

    def settle(self) -> None:
        self.array  # noqa: B018


def _settle(storage: Storage, waiting: Deferred, array: Any) -> None:
    if _array.__get__(storage) is waiting:  # it was not written meanwhile, and nothing is called from here on
        storage.__class__ = Storage
        storage.array = array


def held_value(storage: Storage) -> Any:
    """The array of a storage, or its placeholder."""
    return storage.waiting if storage.__class__ is DeferredStorage else storage.array  # type: ignore[attr-defined]


def may_wait(storage: Storage) -> bool:
    """Let a storage hold a deferred array, if it can."""
    if storage.__class__ is Storage and storage.home is None:
        storage.__class__ = DeferredStorage
    return storage.__class__ is DeferredStorage


def deferred_value(storage: Storage, geometry: Geometry, array: Any) -> Any:
    """The elements of an array that a geometry selects; deferred if the array is, or if they are many."""
    lenses = _getting.__wrapped__ if isinstance(geometry.offset, SymbolicNumber) else _getting
    routine, where = lenses(array.shape, storage.strides, storage.dtype, geometry)
    values = (array, *where)
    return (defer(routine, values) if routine.defers or array.__class__ is Deferred else routine(values))[0]


@lru_cache(1 << 14)
def _layout(sizes: Ints, strides: Ints | None, dtype: Dtype) -> Layout:
    return Layout(sizes, contiguous_strides(sizes) if strides is None else strides, dtype)


_indices: dict[int, Any] = {}


def _index(position: Any) -> Any:
    """The start of a box, or the positions of elements, as a value; single numbers are cached."""
    if isinstance(position, np.ndarray):
        return constant(position)
    if isinstance(position, SymbolicNumber):
        return as_array(position, np.int32)
    index = _indices.get(position)
    if index is None:
        if len(_indices) > 1 << 12:
            _indices.clear()
        index = _indices[position] = constant(np.asarray(position, np.int32))
    return index


#: the lenses of geometries and the values of their positions, cached; not for those that begin at a symbolic number
@lru_cache(1 << 14)
def _getting(sizes: Ints, strides: Ints | None, dtype: Dtype, geometry: Geometry) -> tuple[Routine, tuple[Any, ...]]:
    layout = _layout(sizes, strides, dtype)
    strided = reading(layout, geometry)
    if strided is not None:
        return checked_for_capacity(Routine(strided.graph)), ()
    through, where = lens(layout, geometry)
    return _getter(through), tuple(map(_index, where))


@lru_cache(1 << 14)
def _putting(sizes: Ints, strides: Ints | None, dtype: Dtype, geometry: Geometry) -> tuple[Routine, tuple[Any, ...]]:
    through, where = lens(_layout(sizes, strides, dtype), geometry)
    return _putter(through), tuple(map(_index, where))


def _where_types(through: Lens) -> list[Any]:
    if through.box is None:
        return [array_type(through.sizes, np.int64)]
    return [array_type((), np.int32)] * len(through.box.parent)


@lru_cache(1 << 12)
def _getter(through: Lens) -> Routine:
    types = [array_type(through.layout.sizes, through.layout.dtype.numpy), *_where_types(through)]
    return checked_for_capacity(Routine(simplify(recorded(lambda array, *where: [through.get(array, where)], types))))


@lru_cache(1 << 12)
def _putter(through: Lens) -> Routine:
    types = [
        array_type(through.layout.sizes, through.layout.dtype.numpy),
        *_where_types(through),
        array_type(through.sizes, through.dtype.numpy),
    ]
    return Routine(simplify(recorded(lambda array, *rest: [through.put(array, rest[:-1], rest[-1])], types)))


@lru_cache(1 << 10)
def _grown(have: int, count: int, dtype: Dtype) -> Routine:
    zero = np.zeros((), dtype.numpy)
    return Routine(
        recorded(lambda flat: [lax.pad(flat, zero, ((0, count - have, 0),))], [array_type((have,), dtype.numpy)])
    )
