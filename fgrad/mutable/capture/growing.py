"""Lists that a function only appends to: a log of losses, a history of metrics.

NOTE [Growing lists]
A program is used while all containers are as they were recorded, so a list that grows at each call would need a program
for each length.  But a function that only appends to a list does not depend on what is in it.  So once a call has made
a list longer, the function is recorded with a *growing* list in its place, which notes whether anything else is done
with it.  If not, the list is no guard, and what was appended is an effect: each call appends its own to the list that
it finds there.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fgrad.mutable.capture.caches import CachedFunction, CachedResults
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.capture.scopes import as_dict
from fgrad.mutable.capture.snapshot import CHILDREN, HOLDERS, Snapshot


class Growing:
    """What lists and deques that are recorded have in common.

    Attributes:
      appended: what was appended.
      is_read: whether anything else was done with it.
    """

    appended: list[Any]
    is_read: bool = False

    def append(self, value: Any) -> None:
        self.appended.append(value)
        super().append(value)  # type: ignore[misc]

    def extend(self, values: Iterable[Any]) -> None:
        for value in [*values] if values is self else values:
            self.append(value)

    def __iadd__(self, values: Iterable[Any]) -> "Growing":
        self.extend(values)
        return self


class GrowingList(Growing, list[Any]):
    """A list that is recorded."""


class GrowingDeque(Growing, deque[Any]):
    """A deque that is recorded."""


_GROWING: dict[type, type[Any]] = {list: GrowingList, deque: GrowingDeque}
#: what a class has for all of its objects
_OF_OBJECTS = ("__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__init_subclass__", "__doc__")


def _noted(method: Callable[..., Any]) -> Callable[..., Any]:
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.is_read = True
        return method(self, *args, **kwargs)

    return noting


for _base, _cls in _GROWING.items():
    for _name, _method in vars(_base).items():
        if callable(_method) and _name not in vars(Growing) and _name not in _OF_OBJECTS:
            setattr(_cls, _name, _noted(_method))
    CHILDREN[_cls] = lambda snapshot, value, location: ()


def growing(value: Any) -> Any:
    """A recorded list or deque with the same elements."""
    copy = GrowingList(value) if type(value) is list else GrowingDeque(value, value.maxlen)
    copy.appended, copy.is_read = [], False
    return copy


def can_grow(value: Any) -> bool:
    """Whether something is a plain list or deque."""
    return type(value) in _GROWING


def grown_lists(snapshot: Snapshot) -> Iterator[Holding]:
    """The lists outside of the arguments that a call has made longer, and that one thing holds."""
    for container, before in snapshot.changed():
        is_longer = type(container) is deque or len(container) > len(before)  # a deque may be full
        if can_grow(container) and is_longer and id(container) not in snapshot.argument_containers:
            holdings = holders_of(container, snapshot)
            if len(holdings) == 1 and not is_hidden(container, snapshot):
                yield holdings[0]


def is_hidden(value: Any, snapshot: Snapshot) -> bool:
    """Whether a snapshot has an object where no other can be put in its place: in a tuple, a default, a method."""
    holders = [x for _, x in snapshot.objects.values()] + [x for *_, x in snapshot.variables.values()]
    return any(x is value for holder in holders for x in _fixed_in(holder))


def _fixed_in(holder: Any) -> Iterable[Any]:
    if isinstance(holder, tuple):
        return holder
    if isinstance(holder, HOLDERS):
        return gc.get_referents(holder)
    if isinstance(holder, CachedFunction):
        return CachedResults(holder).values()
    return holder.flat if isinstance(holder, np.ndarray) and holder.dtype == object else ()


def holders_of(value: Any, snapshot: Snapshot) -> list[Holding]:
    """Where a snapshot has an object: in which containers and variables."""
    found = dict[Any, Holding]()
    for container, _ in snapshot.containers.values():
        entries = as_dict(container)
        for key, entry in () if entries is None else entries.items():
            if entry is value:
                found.setdefault(Holding(entries, key).place, Holding(entries, key))
    for scope, name, _ in snapshot.variables.values():
        if scope.get(name, None) is value:
            found.setdefault(Holding(scope, name).place, Holding(scope, name))
    return [*found.values()]
