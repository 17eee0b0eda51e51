"""The file format before PyTorch 1.6, which it still reads: several pickles, then the storages in a given order."""

import io
import pickle
import sys
from typing import IO, Any, Literal

import numpy as np

from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.pickle_memory import awaiting, bytes_of, fill
from fgrad.torch.serialization import restricted
from fgrad.torch.serialization.mentions import checked, dtype_of, stored
from fgrad.torch.serialization.pickler import Pickler

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_LENGTH_BYTES = 8
_SYSTEM = {
    "protocol_version": _PROTOCOL,
    "little_endian": sys.byteorder == "little",
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


def save(obj: Any, stream: Any, protocol: int) -> None:
    """Write a file of this format."""
    content = io.BytesIO()
    pickler = Pickler(content, protocol, views=True)
    pickler.dump(obj)
    for each in (_MAGIC, _PROTOCOL, _SYSTEM):
        pickle.dump(each, stream, protocol)
    stream.write(content.getvalue())
    pickle.dump([str(number) for number in range(len(pickler.cells))], stream, protocol)
    for cell, dtype in zip(pickler.cells, pickler.types, strict=True):
        elements = bytes_of(cell)
        stream.write((len(elements) // dtype.itemsize).to_bytes(_LENGTH_BYTES, sys.byteorder))
        stream.write(elements)


def load(content: bytes, kind: Any, map_location: Any, named: dict[str, Any]) -> tuple[Any, int]:
    """Read a file of this format.

    Returns:
      The object, and the file's size in bytes: others may follow it.

    Raises:
      RuntimeError: it is not one, or damaged.
    """
    stream = io.BytesIO(content)
    if not content.startswith(pickle.PROTO) or _plain(stream) != _MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = _plain(stream)
    if version != _PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {version!r:.60}")
    system = _plain(stream)
    mentions = _Mentions(len(content), map_location)
    value = kind(stream, mentions.find, **named).load()
    big = isinstance(system, dict) and system.get("little_endian") is False
    mentions.fill(stream, _plain(stream), "big" if big else "little")
    return value, stream.tell()


def _plain(stream: IO[bytes]) -> Any:
    """The object of the next pickle, of numbers and texts only."""
    return restricted.Unpickler(stream, _nothing).load()


def _nothing(mention: Any) -> Any:
    raise pickle.UnpicklingError("a storage is mentioned where there can be none")


class _Mentions:
    """The storages that the pickle mentions, whose elements follow it."""

    def __init__(self, size: int, map_location: Any):
        self._size = size
        self._map_location = map_location
        self._cells: dict[str, tuple[Storage, Dtype]] = {}

    def find(self, mention: Any) -> Any:
        if isinstance(mention, tuple) and mention[:1] == ("module",) and len(mention) == 4:
            return mention[1]
        kind, name, location, count, view = checked(mention, 6)[1:]
        dtype = dtype_of(kind)
        if view is not None:
            raise RuntimeError("the file has views of storages, as PyTorch before 0.4 wrote them; they are not read")
        if name not in self._cells:
            self._size -= count * dtype.itemsize
            if self._size < 0:
                raise RuntimeError(f"storage {name!r} is said to have {count} elements of {dtype}, more than the file")
            self._cells[name] = awaiting(count, dtype, location, self._map_location), dtype
        return stored(self._cells[name][0], kind, dtype)

    def fill(self, stream: IO[bytes], names: Any, order: Literal["little", "big"]) -> None:
        """Read the elements."""
        if not isinstance(names, list) or set(names) != self._cells.keys() or len(names) != len(self._cells):
            raise RuntimeError("the storages behind the pickle are not those that it mentions")
        for name in names:
            cell, dtype = self._cells[name]
            size = cell.count * cell.dtype.itemsize
            count = int.from_bytes(stream.read(_LENGTH_BYTES), order)
            content = stream.read(size)
            if count * dtype.itemsize != size or len(content) != size:
                raise RuntimeError(f"storage {name!r} should have {size} bytes, and the file ends or has others")
            if order != sys.byteorder:
                content = np.frombuffer(content, cell.dtype.numpy).byteswap().tobytes()
            fill(cell, content)
