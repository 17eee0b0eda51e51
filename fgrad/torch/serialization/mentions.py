"""The storages that a pickle mentions, from an archive."""

import sys
from typing import Any

import numpy as np

from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.pickle_memory import as_typed, read_in
from fgrad.torch.serialization.archive import Reader
from fgrad.torch.storage import FORMER, TypedStorage, UntypedStorage


class Mentions:
    """Loads the storages of an archive, each name once."""

    def __init__(self, archive: Reader, map_location: Any):
        self._archive = archive
        self._map_location = map_location
        self._cells: dict[str, Storage] = {}
        self._swapped = archive.byte_order() != sys.byteorder

    def storage(self, mention: Any) -> TypedStorage | UntypedStorage:
        """The storage of a persistent id: ``('storage', type, name of the record, location, number of elements)``.

        Raises:
          RuntimeError: the record does not exist, or has another length.
        """
        kind, name, location, count = checked(mention, 5)[1:]
        dtype = dtype_of(kind)
        if name not in self._cells:
            content = self._archive.read(f"data/{name}")
            if len(content) != count * dtype.itemsize:
                raise RuntimeError(
                    f"storage {name!r} is said to have {count} elements of {dtype}, {count * dtype.itemsize} bytes; in "
                    f"the file it has {len(content)} bytes"
                )
            if self._swapped:
                content = np.frombuffer(content, dtype.numpy).byteswap().tobytes()
            self._cells[name] = read_in(content, dtype, location, self._map_location)
        return stored(self._cells[name], kind, dtype)


def checked(mention: Any, length: int) -> Any:
    """A persistent id, checked for its form.

    Raises:
      RuntimeError: the form is wrong.
    """
    match mention:
        case (
            "storage" | b"storage" as tag,
            kind,
            str() | bytes() as name,
            str() | bytes() as location,
            int(count),
            *rest,
        ):
            if count >= 0 and len(mention) == length and (kind is UntypedStorage or kind in FORMER.values()):
                name, location = (x.decode("ascii") if isinstance(x, bytes) else x for x in (name, location))
                return (tag, kind, name, location, count, *rest)
    raise RuntimeError(f"the file mentions a storage in a way that is not PyTorch's: {mention!r:.200}")


def dtype_of(kind: Any) -> Dtype:
    """The dtype of a storage class."""
    return dtypes.uint8 if kind is UntypedStorage else kind.dtype


def stored(cell: Storage, kind: Any, dtype: Dtype) -> TypedStorage | UntypedStorage:
    """A storage of a class over some memory."""
    return UntypedStorage(cell) if kind is UntypedStorage else as_typed(cell, dtype)
