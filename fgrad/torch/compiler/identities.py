"""Whether containers still hold the same objects.

NOTE [Identities]
A step with 200 parameters compares thousands of attributes before its program runs.  ``==`` will not do: for tensors it
is a Python function, and it makes 1 equal to ``True``.  But the memory of an array of objects is their addresses.  So
those of all containers are gathered at once, in C, and compared as bytes.  The old contents are kept alive, so that no
other object can get one of their addresses.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

#: ends the contents of each container, so that nothing can move unnoticed from one to the next
_END = (object(),)


class Contents:
    """The contents of containers, to be compared with their later contents.

    Arguments:
      containers: iterables over the current contents: views of dicts, lists.
      held: the contents to compare with, if not the current ones.
    """

    __slots__ = ("_shown", "_held", "_count", "_addresses")

    def __init__(self, containers: Sequence[Iterable[Any]], held: Sequence[Iterable[Any]] | None = None):
        self._shown: list[Iterable[Any]] = [each for container in containers for each in (container, _END)]
        self._held: list[Any] = [x for each in (containers if held is None else held) for x in (*each, *_END)]
        self._count: int = len(self._held)
        self._addresses: bytes = np.fromiter(self._held, object, self._count).tobytes()

    def hold(self) -> bool:
        """Whether the containers hold the same objects, in the same order."""
        if not self._count:
            return True
        try:
            addresses = np.fromiter(chain.from_iterable(self._shown), object, self._count)
        except (ValueError, RuntimeError):  # there is less, or another thread is changing it
            return False
        return addresses.tobytes() == self._addresses
