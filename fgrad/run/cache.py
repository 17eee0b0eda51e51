"""Bounded caches: old entries are evicted for newer ones."""

from threading import Lock
from typing import Any, Generic, TypeVar

from fgrad.graph.held import Holding, held

Key = TypeVar("Key")
Value = TypeVar("Value")

#: the minimal size of an entry, in nodes of a graph
ENTRY = 1000

_caches: list["Cache[Any, Any]"] = []


class Cache(dict[Key, Value], Generic[Key, Value]):
    """A dict that drops its oldest entries when it holds more than ``limit`` graphs of ordinary length.

    A long graph counts as several, so that a few huge ones do not fill memory.  Reading is plain dict access; ``enter``
    may be called from several threads.
    """

    def __init__(self, limit: int):
        super().__init__()
        self.limit = limit
        self._sizes: dict[Key, int] = {}
        self._total = 0
        self._lock = Lock()
        self._holding: Holding[Key] = Holding(self._drop)
        _caches.append(self)

    def enter(self, key: Key, value: Value, nodes: int = 0) -> Value:
        """Keep ``value``, a graph of this many nodes; or return the value that another thread entered first."""
        size = max(ENTRY, nodes)
        with self._lock:
            if key not in self._sizes:
                self._sizes[key] = size  # before the value, so that every entry has a size even if a signal arrives
                self._total += size
                if bytes_held := held(key):  # most keys hold none
                    self._holding.enter(key, bytes_held)
            kept = self.setdefault(key, value)
            self._shrink()  # this is a call: see NOTE [Signals]
            return kept

    def _shrink(self) -> None:
        while self._total > self.limit * ENTRY and len(self) > 1:
            self._drop(next(iter(self)))

    def _drop(self, key: Key) -> None:
        self.pop(key, None)
        self._total -= self._sizes.pop(key, 0)
        self._holding.forget(key)

    def clear(self) -> None:
        with self._lock:
            super().clear()
            self._sizes.clear()
            self._holding.clear()
            self._total = 0


def clear_all() -> None:
    """Empty every cache."""
    for cache in _caches:
        cache.clear()
