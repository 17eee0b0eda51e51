"""Whether containers still hold the same objects.

NOTE [Identities]
A step with 200 parameters compares thousands of attributes before its program runs.  ``==`` will not do: for tensors it
is a Python function, and it makes 1 equal to ``True``.  But the memory of an array of objects is their addresses.  So
those of all containers are gathered at once, in C, and compared as bytes.  The old contents are kept alive, so that no
other object can get one of their addresses.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np


class Contents:
    """The contents of containers, to be compared with their later contents.

    Arguments:
      containers: the current contents: views of dicts, lists.
      held: the contents to compare with, if not the current ones.
    """

    __slots__ = ("_shown", "_held", "_lengths", "_addresses")

    def __init__(self, containers: Sequence[Collection[Any]], held: Sequence[Collection[Any]] | None = None):
        before = containers if held is None else held
        self._shown: Sequence[Collection[Any]] = containers
        self._held: list[Any] = [x for each in before for x in each]
        self._lengths: list[int] = [*map(len, before)]
        self._addresses: bytes = self._read(self._held)

    def _read(self, objects: Iterable[Any]) -> bytes:
        return np.fromiter(objects, object, len(self._held)).tobytes()

    def hold(self) -> bool:
        """Whether the containers hold the same objects, in the same order."""
        if not self._held:
            return not any(map(len, self._shown))
        try:
            # with the same lengths nothing moves unnoticed from one to the next
            return [*map(len, self._shown)] == self._lengths and (
                self._read(chain.from_iterable(self._shown)) == self._addresses
            )
        except (ValueError, RuntimeError):  # there is less, or another thread is changing it
            return False
