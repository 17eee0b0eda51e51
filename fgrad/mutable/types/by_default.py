"""What holds under one default dtype only: the plans of operations, which promote integers to it."""

from collections.abc import Hashable
from typing import TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K")
V = TypeVar("V")


class ByDefaultDtype(dict[K, V]):
    """A dict that shows the entries made under the present default dtype.

    Those made under another are set aside, and come back with it: a program may change it back and forth.
    """

    __slots__ = ("__weakref__", "aside")

    def __init__(self) -> None:
        super().__init__()
        self.aside: dict[Hashable, dict[K, V]] = {}
        _ALL[id(self)] = self


_ALL: WeakValueDictionary[int, ByDefaultDtype] = WeakValueDictionary()


def switch(before: Hashable, after: Hashable) -> None:
    """Set aside the entries of one default dtype, and show those of another."""
    for entries in list(_ALL.values()):
        entries.aside[before] = dict(entries)
        entries.clear()
        entries.update(entries.aside.pop(after, {}))
