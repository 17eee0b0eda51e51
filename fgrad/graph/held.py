"""How many bytes of arrays the entries of a table keep alive, and dropping the oldest when these are too many.

NOTE [Rules that hold arrays]
A custom rule that is made anew in each step of a loop, or that reads an array which each step replaces, is another rule
in each step.  What was made of it is kept in tables, and with it the arrays that it reads from outside.  So a table
keeps only the newest of such entries, by the bytes that they hold; others are dropped as their table says.

So it is with callbacks, policies of checkpoints and other functions and objects of the user's that are parameters of
operations.
"""

import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import jax
import numpy as np

Key = TypeVar("Key")

#: how many bytes a table may hold, how many entries it keeps however much they hold, and how little counts as nothing
BYTES, ENTRIES, LITTLE = 1 << 27, 64, 1 << 14
#: how many objects one looks at for the bytes of a key, and how many items of a list or dict
PARTS, LENGTH = 1 << 12, 64

_LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "fgrad", "builtins", "functools", "typing")


def held(key: Any) -> int:
    """About how many bytes of arrays a key keeps alive: it looks at a bounded number of the user's objects."""
    total, parts, seen = 0, [key], set[int]()
    while parts and len(seen) < PARTS:
        part = parts.pop()
        if part is None or isinstance(part, str | int | float | bytes) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, tuple):
            parts += part
        elif isinstance(part, jax.Array | np.ndarray):
            total += part.size * part.dtype.itemsize
        elif isinstance(part, types.FunctionType):
            parts += _closed_over(part)
        elif isinstance(part, functools.partial):
            parts += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, types.MethodType):
            parts += [part.__func__, part.__self__]
        elif isinstance(part, list | dict):
            parts += itertools.islice(part.values() if isinstance(part, dict) else part, LENGTH)
        elif type(own := getattr(part, "held", None)) is int:  # a user's object may have an attribute of that name
            total += own
        elif fields := getattr(type(part), "__dataclass_fields__", None):  # JAX's records of callbacks are such, too
            parts += [getattr(part, name, None) for name in fields]
        elif (
            not isinstance(part, type | types.ModuleType)
            and (own := getattr(part, "__dict__", None))
            and not is_of_library(type(part).__module__)
        ):
            parts += itertools.islice(own.values(), LENGTH)
    return total


def is_of_library(module: str | None) -> bool:
    """Whether a module is of a package whose functions and objects read nothing that changes."""
    return module is not None and module.partition(".")[0] in _LIBRARIES


def _closed_over(function: types.FunctionType) -> Iterator[Any]:
    """What a function keeps alive: the variables that it captures, and its defaults."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


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
