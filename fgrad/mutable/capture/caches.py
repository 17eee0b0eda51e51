"""The caches of functions under ``functools.cache`` and ``functools.lru_cache``.

NOTE [Caches of functions]
What such a cache keeps is reachable from the function like the contents of a dict: it is walked, it is a guard, and
what a recorded call has added is dropped when everything is restored.  A call that adds something runs in pieces, so
that the cache gets it; the next call finds it there.

The cache is no attribute of its function: it is found as the garbage collector finds it.  The results in a cache of
limited size are in a list of C's, in pairs with their keys, the last used at the end.  Nothing can be put into it from
outside.  What is removed from its dict stays in the list until it is pushed out, and may push out another entry then.
"""

import functools
import gc
from typing import Any

from attrs import frozen

#: the class of functions under ``functools.cache`` and ``functools.lru_cache``
CachedFunction: type = type(functools.cache(len))


@frozen
class CachedResults:
    """The results that a function has kept, by key."""

    owner: Any

    def _parts(self) -> tuple[dict[Any, Any], list[Any]]:
        """The dict of the cache, and what comes before it: the class, then each key, result and class of an entry."""
        found = gc.get_referents(self.owner)
        at = next(i for i, x in enumerate(found) if type(x) is dict)
        return found[at], found[1:at]

    @property
    def _is_limited(self) -> bool:
        return self.owner.cache_parameters()["maxsize"] is not None

    def items(self) -> list[tuple[Any, Any]]:
        entries, listed = self._parts()
        if not self._is_limited:
            return [*entries.items()]
        listed_results = dict(zip(listed[::3], listed[1::3], strict=True))
        return [(key, listed_results[key]) for key in entries]

    def __len__(self) -> int:
        return self.owner.cache_info().currsize

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put another result in the place of one; a cache of limited size forgets it instead."""
        entries, _ = self._parts()
        if self._is_limited:
            del entries[key]
        else:
            entries[key] = value

    def values(self) -> list[Any]:
        return [x for item in self.items() for x in item]

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def is_unchanged(self, before: dict[Any, Any]) -> bool:
        """Whether it has the same results; the order in which they were last used does not matter."""
        old = {id(key): value for key, value in before.items()}
        return len(self) == len(before) and all(old.get(id(k), self) is v for k, v in self.items())

    def restore(self, before: dict[Any, Any]) -> None:
        """Forget what was added."""
        old = {id(key): value for key, value in before.items()}
        entries, _ = self._parts()
        for key, value in self.items():
            if old.get(id(key), self) is not value:
                entries.pop(key, None)
