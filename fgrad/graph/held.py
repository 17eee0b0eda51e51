"""How many bytes of arrays the entries of a table keep alive, and dropping the oldest when these are too many.

NOTE [Rules that hold arrays]
A custom rule that is made anew in each step of a loop, or that reads an array which each step replaces, is another rule
in each step.  What was made of it is kept in tables, and with it the arrays that it reads from outside.  So a table
keeps only the newest of such entries, by the bytes that they hold; others are dropped as their table says.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
import numpy as np

Key = TypeVar("Key")

#: how many bytes a table may hold, how many entries it keeps however much they hold, and how little counts as nothing
BYTES, ENTRIES, LITTLE = 1 << 27, 64, 1 << 14


def held(key: Any) -> int:
    """About how many bytes of arrays a key keeps alive."""
    if isinstance(key, tuple | list):
        return sum(map(held, key))
    if isinstance(key, jax.Array | np.ndarray):
        return key.size * key.dtype.itemsize
    own = getattr(key, "held", 0)
    return own if type(own) is int else 0  # a user's object may have an attribute of that name


class Holding(Generic[Key]):
    """The entries of a table that hold arrays, in order of arrival; ``drop`` takes one out of the table."""

    def __init__(self, drop: Callable[[Key], object]):
        self.drop = drop
        self._entries: deque[tuple[Key, int]] = deque()
        self._total = 0

    def enter(self, key: Key, size: int) -> None:
        if size < LITTLE:
            return
        self._entries.append((key, size))
        self._total += size
        while self._total > BYTES and len(self._entries) > ENTRIES:
            oldest, size = self._entries.popleft()
            self._total -= size
            self.drop(oldest)

    def clear(self) -> None:
        self._entries.clear()
        self._total = 0
