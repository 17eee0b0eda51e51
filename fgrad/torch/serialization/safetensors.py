"""The safetensors format: named arrays in one block of bytes, after a header with their positions.

NOTE [The safetensors format]: Eight bytes give the length of the header, a little-endian integer.  The header is a JSON
object: for each name the dtype, the shape, and the range of its bytes in the block, row-major and little-endian; and,
under ``__metadata__``, texts by name.  The arrays cover the block without gap or overlap.  Nothing in a file is ever
executed, and nothing larger than the file itself is made from one.

Source: `safetensors <https://huggingface.co/docs/safetensors/index#format>`_.
"""

import json
import math
import sys
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.types import dtypes

#: the name in the header that is not an array's
METADATA = "__metadata__"

_MOST_HEADER_BYTES = 100_000_000  # the limit of the reference implementation
_MOST_DIMENSIONS = 64  # NumPy's
_LENGTH_BYTES = 8

_CODES = {
    dtypes.bool_: "BOOL",
    dtypes.uint8: "U8",
    dtypes.int8: "I8",
    dtypes.int16: "I16",
    dtypes.int32: "I32",
    dtypes.int64: "I64",
    dtypes.uint16: "U16",
    dtypes.uint32: "U32",
    dtypes.uint64: "U64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


class TensorFileError(ValueError):
    """A file of tensors is damaged, or not what it claims to be.

    >>> loads(b'')
    Traceback (most recent call last):
    fgrad.torch.serialization.safetensors.TensorFileError: This is no safetensors file: it has 0 bytes, less than 8.
    """


def loads(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The read-only arrays and the texts of a file, by name.

    Raises:
      TensorFileError: it is not a valid safetensors file; the message says why.

    >>> header = b'{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
    >>> loads(len(header).to_bytes(8, 'little') + header + bytes([0, 1, 2]))
    ({'x': array([0, 1, 2], dtype=uint8)}, {})
    """
    header, block = _split(data)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _error(f"{METADATA} holds something else than texts by name")
    entries = [_entry(name, fields) for name, fields in header.items()]
    _check_cover(entries, len(block))
    return {entry.name: entry.array(block) for entry in entries}, metadata


def _error(reason: str) -> TensorFileError:
    return TensorFileError(f"This is no safetensors file: {reason}.")


def _split(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header and the block of elements."""
    if len(data) < _LENGTH_BYTES:
        raise _error(f"it has {len(data)} bytes, less than {_LENGTH_BYTES}")
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if length > min(_MOST_HEADER_BYTES, len(data) - _LENGTH_BYTES):
        raise _error(f"its header would have {length:,} bytes, the whole file has {len(data):,}")
    end = _LENGTH_BYTES + length
    try:
        header = json.loads(
            data[_LENGTH_BYTES:end].decode(), object_pairs_hook=_without_repetition, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise _error(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _error("its header is not a JSON object")
    return header, memoryview(data)[end:]


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a name occurs twice")
    return mapping


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


@frozen
class _Entry:
    """The header's entry of an array."""

    name: str
    dtype: dtypes.dtype
    shape: tuple[int, ...]
    start: int
    end: int

    def array(self, block: memoryview) -> np.ndarray:
        part = np.frombuffer(block[self.start : self.end], np.uint8)
        if self.dtype is dtypes.bool_ and part.size and part.max() > 1:
            raise _error(f"{self.name!r} has booleans that are neither 0 nor 1")
        if part.ctypes.data % self.dtype.itemsize:
            part = part.copy()
        return _little_endian(part.view(self.dtype.numpy)).reshape(self.shape)


def _entry(name: str, fields: Any) -> _Entry:
    if not isinstance(fields, dict) or not {"dtype", "shape", "data_offsets"} <= fields.keys():
        raise _error(f"the header does not say dtype, shape and data_offsets of {name!r}")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    dtype = _DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise _error(f"{name!r} is of the unknown type {code!r} (known are {', '.join(_DTYPES)})")
    if not _are_naturals(shape) or len(shape) > _MOST_DIMENSIONS:
        raise _error(f"{name!r} has a shape that no array can have")
    if not _are_naturals(offsets) or len(offsets) != 2:
        raise _error(f"{name!r} lies nowhere: its data_offsets are {offsets!r}")
    start, end = offsets
    if end - start != math.prod(shape) * dtype.itemsize:
        raise _error(f"{name!r} has {end - start} bytes, its shape and type need {math.prod(shape) * dtype.itemsize}")
    return _Entry(name, dtype, tuple(shape), start, end)


def _are_naturals(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)


def _check_cover(entries: list[_Entry], length: int) -> None:
    """Check that the arrays cover the block: gaps or overlaps mean damage or malice."""
    end = 0
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start != end:
            reason = "overlaps another tensor" if entry.start < end else "comes after bytes that belong to none"
            raise _error(f"{entry.name!r} {reason}")
        end = entry.end
    if end != length:
        raise _error(f"its tensors have {end:,} bytes, and it holds {length:,}")


def _little_endian(array: np.ndarray) -> np.ndarray:
    """Convert the file's byte order to the machine's."""
    return array if sys.byteorder == "little" else array.byteswap()
