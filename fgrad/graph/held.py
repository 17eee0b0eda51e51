"""How many bytes of arrays the entries of a table keep alive, and dropping the oldest when these are too many.

NOTE [Rules that hold arrays]
A custom rule that is made anew in each step of a loop, or that reads an array which each step replaces, is another rule
in each step.  What was made of it is kept in tables, and with it the arrays that it reads from outside.  So a table
keeps only the newest of such entries, by the bytes that they hold; others are dropped as their table says.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
import numpy as np

Key = TypeVar("Key")

#: how many bytes a table may hold, how many entries it keeps however much they hold, and how little counts as nothing
BYTES, ENTRIES, LITTLE = 1 << 27, 64, 1 << 14


def held(key: Any) -> int:
    """About how many bytes of arrays a key keeps alive."""
    total, parts = 0, [key]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple | list):
            parts += part
        elif isinstance(part, jax.Array | np.ndarray):
            total += part.size * part.dtype.itemsize
        elif type(own := getattr(part, "held", 0)) is int:  # a user's object may have an attribute of that name
            total += own
    return total


class Holding(Generic[Key]):
    """The entries of a table that hold arrays, in order of arrival; ``drop`` takes one out of the table."""

    def __init__(self, drop: Callable[[Key], object]):
        self.drop = drop
        self._entries: dict[Key, int] = {}
        self._total = 0

    def enter(self, key: Key, size: int) -> None:
        if size < LITTLE or key in self._entries:
            return
        self._entries[key] = size
        self._total += size
        while self._total > BYTES and len(self._entries) > ENTRIES:
            oldest = next(iter(self._entries))
            self.forget(oldest)
            self.drop(oldest)

    def forget(self, key: Key) -> None:
        """An entry has left the table; it would live on here."""
        self._total -= self._entries.pop(key, 0)

    def clear(self) -> None:
        self._entries.clear()
        self._total = 0
