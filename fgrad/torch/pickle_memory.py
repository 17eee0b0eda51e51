"""Reading and writing the memory of tensors in files."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.layout.geometry import Geometry, contiguous_strides, extent, is_contiguous, is_dense
from fgrad.mutable.tensor.exported import bytes_in_order
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types import devices, dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.device_of_value import Absent, place_of, placed
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch.storage import TypedStorage, UntypedStorage

#: ``map_location``: a device for all; or a mapping of devices; or a function of a storage and its location
MAP_LOCATION = devices.device | str | dict[str, str] | Callable[[Any, str], Any] | None


class Unclaimed(Storage):
    """Memory from a file that has no tensor yet: the first one determines its layout."""

    __slots__ = ()


def bytes_of(cell: Storage) -> bytes:
    """The bytes of a storage in memory order."""
    return bytes_in_order(concrete(cell.array), cell.strides).tobytes()


def read_in(content: bytes, dtype: Dtype, location: str, map_location: Any) -> Storage:
    """The memory that a file holds, on its device."""
    values = _numbers(np.frombuffer(content, np.uint8), dtype)
    return Unclaimed(placed(constant(values), place_for(values, dtype, location, map_location)), dtype)


def awaiting(count: int, dtype: Dtype, location: str, map_location: Any) -> Storage:
    """Memory whose elements come later in the file, by ``fill``."""
    return read_in(bytes(count * dtype.itemsize), dtype, location, map_location)


def fill(cell: Storage, content: bytes) -> None:
    """Fill in the elements of ``awaiting`` memory."""
    layout = cell.layout
    values = _numbers(np.frombuffer(content, np.uint8), cell.dtype)
    cell.array = placed(constant(_strided(values, layout.sizes, layout.strides)), place_of(cell.array))


def as_typed(cell: Storage, dtype: Dtype) -> TypedStorage:
    """A typed storage, without the deprecation warning."""
    storage = object.__new__(TypedStorage)
    storage.dtype = dtype
    storage._cell = cell
    return storage


def look_at(
    storage: TypedStorage | UntypedStorage, dtype: Dtype, offset: int, sizes: Any, strides: Any, metadata: Any = None
) -> Tensor:
    """A tensor that views a storage.

    Raises:
      RuntimeError: it reaches beyond the storage.
    """
    geometry = _checked(storage, dtype, offset, sizes, strides, metadata or {})
    cell = storage._cell
    if isinstance(cell, Unclaimed):
        cell.__class__ = Storage  # type: ignore[assignment]
        size = storage.nbytes()
        spanned = extent(geometry.sizes, geometry.strides, 0) * dtype.itemsize
        if size and geometry.offset == 0 and spanned == size and is_dense(geometry.sizes, geometry.strides):
            _claim(cell, geometry)
    tensor = new_tensor(None, tensor_type(dtype, geometry.sizes))
    tensor._storage = cell
    if (cell.layout.sizes, cell.layout.strides, cell.dtype) != (geometry.sizes, geometry.strides, dtype) or (
        geometry.conj or geometry.neg
    ):
        tensor._geometry = geometry
    return tensor


def _claim(cell: Storage, geometry: Geometry) -> None:
    """Give memory the layout of the tensor that covers it, so that operations read it without a gather."""
    where = place_of(cell.array)
    if cell.array.__class__ is Absent:
        return
    sizes, strides = geometry.sizes, geometry.strides
    values = bytes_in_order(concrete(cell.array), None).view(geometry.dtype.numpy)
    cell.array = placed(constant(_strided(values, sizes, strides)), where)
    cell.strides = None if is_contiguous(sizes, strides) else strides
    cell.dtype = geometry.dtype


def _numbers(content: np.ndarray, dtype: Dtype) -> np.ndarray:
    if dtype is dtypes.bool_:
        return content != 0
    return content.view(dtype.numpy)


def _strided(values: np.ndarray, sizes: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """Elements in memory order as an array of these sizes and strides."""
    if not values.size:
        return values.reshape(tuple(sizes))
    byte_strides = [stride * values.itemsize for stride in strides]
    return np.ascontiguousarray(np.ndarray(tuple(sizes), values.dtype, np.ascontiguousarray(values), 0, byte_strides))


def _checked(storage: Any, dtype: Dtype, offset: Any, sizes: Any, strides: Any, metadata: Any) -> Geometry:
    """The geometry from a file, checked to lie within the storage."""
    if not isinstance(storage, TypedStorage | UntypedStorage) or not isinstance(dtype, Dtype):
        raise RuntimeError(f"a tensor is said to lie in {type(storage).__name__}, with elements of {dtype!r}")
    sizes, strides = tuple(sizes), tuple(strides)
    numbers = (offset, *sizes, *strides)
    if len(sizes) != len(strides) or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise RuntimeError(
            f"a tensor has sizes {sizes}, strides {strides} and storage offset {offset}: each must be a natural number"
        )
    if len(sizes) > 64 or not isinstance(metadata, dict):
        raise RuntimeError(f"a tensor has {len(sizes)} dimensions or metadata that are no dictionary")
    need = extent(sizes, strides, offset) * dtype.itemsize
    if need > storage.nbytes() or offset * dtype.itemsize > storage.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{dtype.itemsize} requiring a storage size of {need} are out of bounds for storage of size "
            f"{storage.nbytes()}"
        )
    strides = strides if sizes else contiguous_strides(sizes)
    return Geometry(sizes, strides, offset, dtype, bool(metadata.get("conj")), bool(metadata.get("neg")))


def place_for(values: np.ndarray, dtype: Dtype, location: str, mapped: Any) -> devices.device:
    """The device for memory from a location, after ``map_location``.

    Raises:
      RuntimeError: the device is not available.
    """
    if callable(mapped):
        restored: Any = mapped(UntypedStorage(Storage(constant(values), dtype)), location)
        return settled(location) if restored is None else restored.device
    if isinstance(mapped, dict):
        mapped = mapped.get(location)
    return settled(location if mapped is None else mapped)


def settled(device: Any) -> devices.device:
    """A device, checked to be available.

    Raises:
      RuntimeError: it is not.
    """
    device = devices.device(device)
    try:
        devices.settled(device)
    except (AssertionError, RuntimeError) as error:
        raise RuntimeError(
            f"Attempting to deserialize object on a {device.type.upper()} device but "
            f"torch.{device.type}.is_available() is False. If you are running on a CPU-only machine, please use "
            "torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        ) from error
    return device
