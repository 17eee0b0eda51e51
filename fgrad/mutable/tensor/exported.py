"""Storages whose memory is exported: by address, or as NumPy arrays.

NOTE [Exported memory]
The arrays of a storage never change: a write points the storage to another array.  But an address or a NumPy array must
refer to one block of memory that always shows the current elements.  A storage that is exported gets such memory and
changes its class; all others pay nothing.

- ``Addressed``: the address was given out.  Each write to the storage is copied into the memory.  Nobody knows how long
  the address is in use, so the memory lives as long as the storage does, or until the storage is resized.
- ``Shared``: NumPy's arrays lie in the memory, and may write to it.  At each use, the memory is compared with the array
  that the storage holds; where they differ, the storage points to a new array.  No version counts such a write, as in
  PyTorch, and a tensor that backward has saved is read at backward time, so it gives what was written.  When the last
  of the arrays is gone, the storage is what it was before.

Whether others hold the memory is seen by the reference counts of its owners.  Writes through a bare address, as by
``ctypes``, are not seen.
"""

import sys
from typing import Any

import numpy as np
from attrs import define

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides
from fgrad.mutable.tensor.in_memory import in_order, selected
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.device_of_value import accelerator_of
from fgrad.mutable.values.evaluation import constant, is_abstract

#: the alignment of PyTorch's memory
ALIGNMENT = 64
#: up to so many bytes are compared faster by Python than by NumPy
SMALL = 1 << 12
NOT_RESIZABLE = "Trying to resize storage that is not resizable"
#: the slot that the properties of the classes below shadow
_array: Any = Storage.__dict__["array"]


def _references(holder: np.ndarray) -> int:
    owner = holder.base
    return sys.getrefcount(owner)


#: the reference count of an unshared object, with the references of the counting functions
_ONE = _references(np.empty(1)[:])


@define(eq=False)
class Memory:
    """A storage's bytes in one block of memory, elements in the order of the storage."""

    bytes: np.ndarray
    #: whether its address was exported
    addressed: bool = False
    #: whether it was ever exported as an array; PyTorch refuses to resize such storages from then on
    lent: bool = False
    #: an object whose existence makes the memory count as held by others
    witness: Any = None

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self.bytes.__array_interface__["data"][0]

    def is_held(self) -> bool:
        """Whether others may hold the memory."""
        holder: Any = self.bytes
        while True:
            owner = getattr(holder, "obj" if holder.__class__ is memoryview else "base", None)
            if owner is None:
                # nothing is known about the holders of other kinds of memory
                return not ((isinstance(holder, np.ndarray) and holder.flags.owndata) or isinstance(holder, bytearray))
            if sys.getrefcount(owner) > _ONE:
                return True
            holder = owner


def allocated(size: int) -> np.ndarray:
    """New zeroed memory of this many bytes, which the system provides as they are touched."""
    block = np.zeros(size + ALIGNMENT, np.uint8)
    start = -block.__array_interface__["data"][0] % ALIGNMENT
    return block[start : start + size]


class Addressed(Storage):
    """A storage whose address was exported."""

    __slots__ = ()
    memory: Memory

    @property
    def array(self) -> Any:
        return _array.__get__(self)

    @array.setter
    def array(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        _array.__set__(self, value)
        self._show()

    def _show(self) -> None:
        """Copy the elements into the memory, if they are on the host."""
        value = _array.__get__(self)
        if value.__class__ is np.ndarray or (not is_abstract(value) and accelerator_of(value) is None):
            np.copyto(self._laid(value.shape), np.asarray(value))

    def _laid(self, sizes: Ints) -> np.ndarray:
        """The memory as an array with the storage's layout."""
        strides = contiguous_strides(sizes) if self.strides is None else self.strides
        return selected(self.memory.bytes, Geometry(sizes, strides, 0, self.dtype))

    def resize(self, count: int) -> None:
        if self.memory.lent:
            raise RuntimeError(NOT_RESIZABLE)
        self.memory = None  # type: ignore[assignment]
        self.__class__ = Storage  # type: ignore[assignment]
        self.resize(count)


class Shared(Addressed):
    """A storage that shares its memory with NumPy arrays."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        array = _array.__get__(self)
        if array.__class__ is not np.ndarray and is_abstract(array):
            return array
        is_held = self.memory.is_held()
        if not _same(self.memory.bytes, bytes_in_order(np.asarray(array), self.strides)):
            array = constant(self._laid(array.shape))
            _array.__set__(self, array)
        if not is_held:
            self._returned()
        return array

    @array.setter
    def array(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        _array.__set__(self, value if modes.capturing is None else modes.capturing.exported_value(value))
        self._show()

    def _returned(self) -> None:
        """Stop sharing: no NumPy array is left."""
        if self.memory.addressed:
            self.__class__ = Addressed  # type: ignore[assignment]
        else:
            self.memory: Memory = None  # type: ignore[assignment]
            self.__class__ = Fixed  # type: ignore[assignment]


class Fixed(Storage):
    """A storage whose memory is no longer exported, and that keeps its size."""

    __slots__ = ()

    def resize(self, count: int) -> None:
        raise RuntimeError(NOT_RESIZABLE)


def bytes_in_order(values: np.ndarray, strides: Ints | None) -> np.ndarray:
    """The bytes of an array's elements in storage order."""
    return in_order(values, strides).reshape(-1).view(np.uint8)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if len(one) < SMALL:
        return one.tobytes() == other.tobytes()
    if not len(one) % 8:
        one, other = one.view(np.uint64), other.view(np.uint64)
    return bool((one == other).all())


def is_resizable(storage: Storage) -> bool:
    """Whether a storage may be given another size."""
    storage.settle()
    return not isinstance(storage, Fixed) and (storage.memory is None or not storage.memory.lent)


def _exported(storage: Storage) -> Memory:
    """The exported memory of a storage, made if it has none."""
    storage.settle()
    if not isinstance(storage, Addressed):
        storage.memory = Memory(allocated(storage.count * storage.dtype.itemsize), lent=isinstance(storage, Fixed))
        storage.__class__ = Addressed
        storage._show()  # type: ignore[attr-defined]
    return storage.memory


def address_of(storage: Storage) -> int:
    """The address of a storage's first byte, the same until the storage is resized."""
    memory = _exported(storage)
    memory.addressed = True
    return memory.address


def window(storage: Storage, geometry: Geometry) -> np.ndarray:
    """The elements selected by a geometry as a writable array that shares the storage's memory."""
    memory = _exported(storage)
    array = selected(memory.bytes, geometry)
    memory.lent = True
    storage.__class__ = Shared
    return array


def over(memory: np.ndarray, sizes: Ints, dtype: Dtype, strides: Ints | None, witness: Any = None) -> Storage:
    """A storage over bytes that others hold and may write."""
    storage = Storage(None, dtype, strides)
    storage.memory = Memory(memory, lent=True, witness=witness)
    storage.__class__ = Shared
    shared: Any = storage
    _array.__set__(storage, constant(shared._laid(sizes)))
    return storage
