"""Writes safetensors files, and nested values into them as `torch.save` did before it wrote PyTorch's format."""

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.formats import layout
from fgrad.mutable.types.size import Size
from fgrad.torch.serialization.safetensors import (
    _CODES,
    _LENGTH_BYTES,
    _MOST_HEADER_BYTES,
    METADATA,
    _little_endian,
)

Code = Any
Describe = Callable[[Any, tuple[str, ...]], dict[str, Any] | None]


def dump(stream: IO[bytes], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write arrays by name, and texts by name, to a binary file.

    Raises:
      ValueError, TypeError: the format has no place for an array's name or elements.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    end = 0
    in_order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    for name in in_order:
        array = arrays[name]
        code = _CODES.get(dtypes.from_numpy(array.dtype))
        if code is None or name == METADATA:
            raise ValueError(f"safetensors has no place for an array named {name!r} of {array.dtype}.")
        start, end = end, end + array.nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    if len(text) > _MOST_HEADER_BYTES:
        raise ValueError(f"safetensors has no place for a header of more than {_MOST_HEADER_BYTES:,} bytes.")
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(text)
    for name in in_order:
        stream.write(_little_endian(arrays[name]).tobytes())


class Encoder:
    """Turns values into JSON."""

    def __init__(self, describe: Describe):
        self._describe = describe
        self._within: set[int] = set()

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Code:
        """The JSON of a value that is found at some path of keys.

        Raises:
          TypeError: there is something in it that a file cannot hold.
          ValueError: a container contains itself.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": repr(value)}
        found = self._describe(value, path) or _described(value)
        if found is not None:
            return found
        if kind not in (list, tuple, set, dict, OrderedDict):
            raise TypeError(
                f"torch.save: {_where(path)} there is {_a(kind.__name__)}. A file holds tensors, their sizes, types "
                "and devices, numbers, texts, bytes, None, and lists, tuples, sets, dicts and OrderedDicts of them.\n"
                "Way out: of a module or an optimizer, save its state_dict()."
            )
        if id(value) in self._within:
            raise ValueError(f"torch.save: {_where(path)} there is {_a(kind.__name__)} that contains itself.")
        self._within.add(id(value))
        try:
            return self._container(value, path)
        finally:
            self._within.remove(id(value))

    def _container(self, value: Any, path: tuple[str, ...]) -> Code:
        if isinstance(value, list | tuple | set):
            items = [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
            return items if isinstance(value, list) else {type(value).__name__: items}
        items = [[self._key(key, path), self.encode(item, (*path, str(key)))] for key, item in value.items()]
        if type(value) is dict:
            return {"dict": items}
        extra = getattr(value, "_metadata", None)
        return {"OrderedDict": items} | ({} if extra is None else {"_metadata": self.encode(extra, path)})

    def _key(self, key: Any, path: tuple[str, ...]) -> Code:
        if key is not None and type(key) not in (bool, int, float, str):
            raise TypeError(
                f"torch.save: {_where(path)} there is {_a(type(key).__name__)} as a key; in a file, keys are numbers, "
                "texts and None."
            )
        return self.encode(key, path)


def _described(value: Any) -> Code:
    """The JSON of what is no container; None for all else."""
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Size):
        return {"Size": list(value)}
    if isinstance(value, dtypes.dtype | layout):
        return {"dtype" if isinstance(value, dtypes.dtype) else "layout": value.name}
    return {"device": str(value)} if isinstance(value, device) else None


def _where(path: tuple[str, ...]) -> str:
    return "at " + "".join(f"[{key}]" for key in path) if path else "at the top"


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOaeio" else f"a {name}"
