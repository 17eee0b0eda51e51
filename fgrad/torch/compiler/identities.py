"""Whether containers hold the very objects that they held.

NOTE [Identities]
A step with 200 parameters looks at thousands of attributes before its program runs, and ``==`` is no way to compare
them: it is a function of Python's for tensors, and finds 1 and ``True`` the same.  An array of objects is, in memory,
their addresses, so those of all containers are taken down in one go, in C, and compared as bytes.  What was held is
kept alive, so that no other object can have its address.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

#: stands after what each container holds, so that nothing can move from one to the next
_END = (object(),)


class Contents:
    """The objects that containers hold, taken down to be compared with what they hold later.

    Arguments:
      containers: iterables that show what is held at the time: dicts' views, lists.
      held: what they held when it was taken down, if not what they hold now.
    """

    __slots__ = ("_shown", "_held", "_count", "_addresses")

    def __init__(self, containers: Sequence[Iterable[Any]], held: Sequence[Iterable[Any]] | None = None):
        self._shown: list[Iterable[Any]] = [each for shown in containers for each in (shown, _END)]
        self._held: list[Any] = [x for each in (containers if held is None else held) for x in (*each, *_END)]
        self._count: int = len(self._held)
        self._addresses: bytes = np.fromiter(self._held, object, self._count).tobytes()

    def hold(self) -> bool:
        """Whether the containers hold what they held, in the same order."""
        try:
            shown = np.fromiter(chain.from_iterable(self._shown), object, self._count)
        except (ValueError, RuntimeError):  # there is less, or another thread is changing it
            return False
        return shown.tobytes() == self._addresses
