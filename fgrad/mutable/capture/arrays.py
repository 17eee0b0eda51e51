"""Arrays that a function can reach: what it reads of them would be constants, so their elements are guarded."""

import ctypes
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import frozen


@frozen
class Elements:
    """The elements of an array of NumPy's, with its shape and type."""

    owner: np.ndarray

    def values(self) -> Iterable[Any]:
        """The elements that are objects."""
        return self.owner.flat if self.owner.dtype == object else ()

    def copy(self) -> np.ndarray:
        return self.owner.copy()

    def is_unchanged(self, before: np.ndarray) -> bool:
        """Whether the array has the same bytes; objects are compared by identity."""
        now = self.owner
        if now.shape != before.shape or now.dtype != before.dtype:
            return False
        if now.dtype == object:
            return all(x is y for x, y in zip(now.flat, before.flat, strict=True))
        return now.tobytes() == before.tobytes()

    def restore(self, before: np.ndarray) -> None:
        """Put the elements back."""
        if self.owner.shape == before.shape and self.owner.dtype == before.dtype:
            self.owner[...] = before


@frozen
class Bytes:
    """The bytes of a ``bytearray`` or an ``array.array``."""

    owner: "bytearray | array[Any]"

    def values(self) -> Iterable[Any]:
        """Those that are objects: none."""
        return ()

    def copy(self) -> Any:
        return self.owner[:]

    def is_unchanged(self, before: Any) -> bool:
        """Whether it has the same bytes."""
        return bytes(self.owner) == bytes(before)

    def restore(self, before: Any) -> None:
        """Put the bytes back."""
        self.owner[:] = before


@frozen
class Memory(Bytes):
    """The bytes of an object of ``ctypes``, without what its pointers point to."""

    owner: "ctypes._CData"

    def copy(self) -> bytes:
        return bytes(self.owner)

    def restore(self, before: bytes) -> None:
        """Put the bytes back."""
        ctypes.memmove(ctypes.addressof(self.owner), before, len(before))


#: the class of all objects of ``ctypes``
IN_MEMORY: type = ctypes.Structure.__base__  # type: ignore[assignment]
