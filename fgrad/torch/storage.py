"""``torch.storage``: the memory of tensors, as bytes (``UntypedStorage``) and as numbers (``TypedStorage``).

Writes bypass autograd: they bump no version, as in PyTorch.

>>> import fgrad.torch as torch
>>> torch.tensor([[1, 2], [3, 4]]).t().untyped_storage().nbytes()
32

Source: `torch.Storage <https://docs.pytorch.org/docs/2.13/storage.html>`_.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from fgrad.deferred import deferred
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.tensor.exported import address_of, bytes_in_order, is_resizable, over
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.capacity import check_room
from fgrad.mutable.values.device_of_value import Absent, place_of, placed
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch.shared_memory import is_shared, share

_DEPRECATED = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)

# by this name PyTorch's plain pickles ask for their storages
__getattr__, __dir__ = deferred(__name__, {"fgrad.torch.serialization": "_load_from_bytes"})


def warn_of_types() -> None:
    """Warn once that typed storages are deprecated."""
    warn_once(_DEPRECATED)


class _Memory:
    """Base of both kinds: elements of a dtype in a cell."""

    _cell: Storage
    dtype: Dtype

    def _elements(self, start: int = 0, count: int | None = None) -> np.ndarray:
        cell = self._cell
        end = self.size() if count is None else start + count
        data = bytes_in_order(concrete(cell.array), cell.strides)
        return data[start * self.dtype.itemsize : end * self.dtype.itemsize].view(self.dtype.numpy)

    def _write(self, start: int, values: np.ndarray) -> None:
        where = Geometry((len(values),), (1,), start, self.dtype)
        self._cell.write(where, constant(values.astype(self.dtype.numpy)))

    def _position(self, index: Any) -> int:
        size = self.size()
        if not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return index % size

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._cell.count * self._cell.dtype.itemsize

    def __len__(self) -> int:
        return self.size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as a list."""
        return self._elements().tolist()

    def element_size(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first byte, the same until it is resized; 0 if empty."""
        return address_of(self._cell) if self._cell.count and self._cell.array.__class__ is not Absent else 0

    @property
    def device(self) -> Any:
        return place_of(self._cell.array)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def _cdata(self) -> int:
        return id(self._cell)

    def copy_(self, source: "_Memory", non_blocking: bool | None = None) -> Self:
        """Copy the elements of another storage."""
        self._write(0, source._elements())
        return self

    def fill_(self, value: Any) -> Self:
        """Fill with one value."""
        self._write(0, np.full(self.size(), value))
        return self

    def is_shared(self) -> bool:
        """Whether ``share_memory_`` was called for it."""
        return is_shared(self._cell)

    def share_memory_(self) -> Self:
        """Say that other processes may ask for it."""
        share(self._cell)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Whether it is pinned for a GPU: never."""
        return False

    def resizable(self) -> bool:
        """Whether it can grow: unless its memory is, or was, a NumPy array."""
        return is_resizable(self._cell)

    def _text(self, elements: Sequence[Any], kind: str) -> str:
        shown = "..." if self.device.type == "meta" else " " + "\n ".join(map(str, elements))
        return f"{shown}\n[torch.storage.{kind}device={self.device}) of size {self.size()}]"


class UntypedStorage(_Memory):
    """The bytes of a tensor's memory, from ``untyped_storage()``; two are equal if the memory is the same.

    ``UntypedStorage(4)`` makes one of 4 bytes, ``UntypedStorage([1, 2])`` one with these.

    Raises:
      RuntimeError: memory runs out, or an element of the sequence is not an integer.
      ValueError: the size has more than 64 bits.
    """

    dtype: dtypes.dtype = dtypes.uint8

    def __init__(self, data: Storage | int | Sequence[int] = 0, *, device: Any = None):
        if not isinstance(data, Storage):
            data = Storage(placed(constant(_bytes(data)), Device("cpu" if device is None else device)), self.dtype)
        self._cell = data

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> "UntypedStorage":
        """The first bytes of a file; with ``shared``, writing to the storage writes to the file.

        Raises:
          RuntimeError: the file does not exist or is too short.

        Source: `torch.UntypedStorage.from_file
        <https://docs.pytorch.org/docs/2.13/storage.html#torch.UntypedStorage.from_file>`_.
        """
        path = Path(filename)
        if not path.exists() and not shared:
            raise RuntimeError(f"unable to open file <{path}> in read-only mode: No such file or directory (2)")
        size = path.stat().st_size if path.exists() else 0
        if nbytes > size and not shared:
            raise RuntimeError(f"file <{path}> size <{size}> is smaller than the required mapping size <{nbytes}>")
        if shared and nbytes:
            mapped = np.memmap(path, np.uint8, "r+" if path.exists() else "w+", shape=(nbytes,))
            return cls(over(mapped.view(np.ndarray), (nbytes,), cls.dtype, None))
        return cls(Storage(constant(np.fromfile(path, np.uint8, nbytes)), cls.dtype))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.size())
            if step != 1:
                raise TypeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            return type(self)(Storage(constant(self._elements(start, max(stop - start, 0))), self.dtype))
        return int(self._elements(self._position(index), 1)[0])

    def __setitem__(self, index: Any, value: Any) -> None:
        start, stop, _ = index.indices(self.size()) if isinstance(index, slice) else (self._position(index), None, 1)
        self._write(start, np.full(1 if stop is None else stop - start, value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._cell is other._cell

    def __hash__(self) -> int:
        return id(self._cell)

    def __repr__(self) -> str:
        return self._text([] if self.device.type == "meta" else self.tolist(), "UntypedStorage(")

    def clone(self) -> "UntypedStorage":
        """A copy."""
        return type(self)(Storage(constant(self._elements()), self.dtype))

    def untyped(self) -> "UntypedStorage":
        """Itself."""
        return self

    def resize_(self, nbytes: int) -> None:
        """Resize to a number of bytes.

        Raises:
          RuntimeError: the memory is a NumPy array, or memory runs out.
        """
        self._cell.resize(nbytes // self._cell.dtype.itemsize)


def _bytes(data: int | Sequence[int]) -> np.ndarray:
    """The initial bytes of a new storage."""
    if isinstance(data, int):
        check_room(data)
        return np.zeros(data, np.uint8)
    for x in data:
        if not isinstance(x, int):
            raise RuntimeError(
                "torch.UntypedStorage(): tried to construct a storage from a sequence "
                f"({type(data).__name__}), but one of the items was of type {type(x).__name__} instead of int"
            )
    return np.array(data, np.uint8)


def _to(dtype: Dtype) -> Any:
    def convert(self: "TypedStorage") -> "TypedStorage":
        return self if dtype is self.dtype else TypedStorage(self._elements(), dtype=dtype)

    convert.__doc__ = f"As a storage of {dtype}."
    return convert


class _Conversions:
    double, float, half, bfloat16 = map(_to, (dtypes.float64, dtypes.float32, dtypes.float16, dtypes.bfloat16))
    long, int, short, char, byte = map(_to, (dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8))
    bool, complex_double, complex_float = map(_to, (dtypes.bool_, dtypes.complex128, dtypes.complex64))


class TypedStorage(_Conversions, _Memory):
    """The elements of a tensor's memory, from ``storage()``; deprecated, as in PyTorch.

    ``TypedStorage(4, dtype=torch.float32)`` and ``TypedStorage([1, 2], dtype=torch.int64)`` make new ones.
    """

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None):
        warn_of_types()
        self.dtype = dtypes.argument(dtype, "TypedStorage") if dtype is not None else dtypes.get_default_dtype()
        if wrap_storage is None:
            content = args[0] if args else 0
            if isinstance(content, int):
                check_room(content * self.dtype.itemsize)
            values = np.zeros(content) if isinstance(content, int) else np.asarray(list(content))
            wrap_storage = UntypedStorage(Storage(constant(values.astype(self.dtype.numpy)), self.dtype))
        self._cell = wrap_storage._cell

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a <class 'torch.storage.TypedStorage'> with {type(index)}")
        return self._elements(self._position(index), 1).tolist()[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, int | slice):
            raise RuntimeError(f"can't index a <class 'torch.storage.TypedStorage'> with {type(index)}")
        positions = range(self.size())[index] if isinstance(index, slice) else [self._position(index)]
        for position, element in zip(positions, np.broadcast_to(np.asarray(value), (len(positions),)), strict=True):
            self._write(position, np.asarray([element]))

    def __eq__(self, other: object) -> bool:
        # PyTorch compares identity
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return self._text([] if self.device.type == "meta" else self.tolist(), f"TypedStorage(dtype={self.dtype}, ")

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return UntypedStorage(self._cell)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def clone(self) -> "TypedStorage":
        """A copy."""
        return TypedStorage(self._elements(), dtype=self.dtype)

    def cpu(self) -> "TypedStorage":
        """Itself, or a copy on the CPU."""
        return self if self.device.type == "cpu" else self.clone()

    def type(self) -> str:
        """The name of PyTorch's former class for its dtype."""
        return "torch." + self.pickle_storage_type()

    def pickle_storage_type(self) -> str:
        """The name of that class, without its module."""
        return former_class(self.dtype).__name__

    def resize_(self, size: int) -> None:
        """Resize to a number of elements."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)


class _Former(type):
    """The metaclass of PyTorch's former classes, one per dtype: storages of the dtype are their instances."""

    dtype: Dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **named: Any) -> TypedStorage:
        return TypedStorage(*args, dtype=cls.dtype, **named)


def _former(name: str, dtype: Dtype) -> _Former:
    return _Former(name, (), {"dtype": dtype, "__module__": "torch"})


FORMER = {
    name: _former(name, dtype)
    for name, dtype in {
        "DoubleStorage": dtypes.float64,
        "FloatStorage": dtypes.float32,
        "HalfStorage": dtypes.float16,
        "BFloat16Storage": dtypes.bfloat16,
        "LongStorage": dtypes.int64,
        "IntStorage": dtypes.int32,
        "ShortStorage": dtypes.int16,
        "CharStorage": dtypes.int8,
        "ByteStorage": dtypes.uint8,
        "BoolStorage": dtypes.bool_,
        "ComplexDoubleStorage": dtypes.complex128,
        "ComplexFloatStorage": dtypes.complex64,
    }.items()
}


def normalize_storage_type(storage_type: type) -> Any:
    """The former class of this name: PyTorch's files mention classes of several modules."""
    return FORMER[storage_type.__name__]


def former_class(dtype: Dtype) -> _Former:
    """PyTorch's former class of storages of a dtype."""
    return next(each for each in FORMER.values() if each.dtype is dtype)
