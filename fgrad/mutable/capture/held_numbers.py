"""Python numbers outside of the arguments: a counter in an attribute, a dict, a list, or a variable.

NOTE [Held numbers]
A trainer counts its steps, and a loss has a weight that a schedule changes.  A program for each value would be no use.
So once such a number has changed, during a call or between two, the function is recorded with a symbolic number in its
place (NOTE [Symbolic numbers]).  The number is an input of the program then, and what the call leaves in its place is
computed by Python at each call.

A recording that continues in pieces goes on with the values: they are put back in all places that can be reached, then
and when the call has ended.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.mutable.capture.arrays import Bytes, Elements
from fgrad.mutable.capture.scopes import (
    MISSING,
    Entries,
    Items,
    Parts,
    Variable,
    as_dict,
    entries_of,
    identity_of,
    namespace_of,
)
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.number_program import same_number
from fgrad.mutable.types.symbolic import SYMBOLIC, SymbolicNumber, plain


@frozen(eq=False)
class Holding:
    """Something from outside, by what holds it, as a dict: attributes, globals, the user's dict or list, a variable."""

    container: Any
    key: Any

    @property
    def place(self) -> tuple[int, Any]:
        """The same for the same place."""
        return identity_of(self.container), self.key

    def read(self) -> Any:
        return self.container.get(self.key, MISSING)

    def location(self, snapshot: Snapshot) -> Location:
        """Where it is, as the user would write it."""
        if isinstance(self.container, Variable):
            return Location("a variable", ("a variable",))
        owner = identity_of(self.container)
        for location, holder in snapshot.objects.values():
            if namespace_of(holder) is self.container:
                return location.attribute(self.key)
            if id(holder) == owner:
                is_item = isinstance(self.container, dict | Items | Entries)
                return location.item(self.key) if is_item else location.attribute(self.key)
        return Location(str(self.key), (self.key,))


def is_number_like(new: Any, old: Any) -> bool:
    """Whether both are numbers of a class that may be symbolic."""
    return type(old) in SYMBOLIC and new.__class__ is type(old)


def is_changed_number(new: Any, old: Any) -> bool:
    """Whether a number has been replaced by another one of its class."""
    return is_number_like(new, old) and (isinstance(new, SymbolicNumber) or not same_number(new, old))


def changed_numbers(snapshot: Snapshot) -> Iterator[Holding]:
    """The numbers outside of the arguments that a call has changed."""
    for container, before in snapshot.changed():
        entries = as_dict(container)
        if entries is not None and id(container) not in snapshot.argument_containers:
            for key, old in entries_of(before):
                if is_changed_number(entries.get(key, MISSING), old):
                    yield Holding(entries, key)
    for scope, name, old in snapshot.rebound():
        if not isinstance(scope, Parts) and is_changed_number(scope.get(name, MISSING), old):
            yield Holding(scope, name)


def held_in(snapshot: Snapshot, number: Holding) -> bool:
    """Whether a snapshot includes what holds a number, which is one still."""
    if type(number.read()) not in SYMBOLIC:
        return False
    return number.place in snapshot.variables or number.place[0] in snapshot.containers


def settle(snapshot: Snapshot) -> None:
    """Replace the symbolic numbers in all containers and variables of a snapshot by their values."""
    for container, _ in snapshot.containers.values():
        if isinstance(container, set):
            found = [x for x in container if settled(x) is not x]
            container.difference_update(found)
            container.update(map(settled, found))
            continue
        if isinstance(container, dict) and any(settled(key) is not key for key in dict.keys(container)):
            items = {settled(key): value for key, value in as_dict(container).items()}
            as_dict(container).clear()
            as_dict(container).update(items)
        if isinstance(container, Elements | Bytes):
            continue
        entries: Any = Items(container) if isinstance(container, list | deque) else as_dict(container) or container
        for key, value in [*entries.items()]:
            if settled(value) is not value:
                entries[key] = settled(value)
    for scope, name, _ in snapshot.variables.values():
        if settled(value := scope.get(name, MISSING)) is not value:
            scope[name] = settled(value)
    for _, value in snapshot.objects.values():
        _settle_within(value)


def _settle_within(value: Any) -> None:
    """Replace the symbolic numbers in an object of C's that is no container of attributes or entries."""
    match value:
        case partial() if settled(value.args) is not value.args:
            value.__setstate__((value.func, settled(value.args), value.keywords, vars(value)))  # type: ignore[attr-defined]
        case SimpleQueue():
            for _ in range(value.qsize()):
                value.put(settled(value.get()))
        case np.ndarray() if value.dtype == object:
            for index, element in np.ndenumerate(value):
                value[index] = settled(element)
        case Tensor() if value._geometry is not None and isinstance(value._geometry.offset, SymbolicNumber):
            value._geometry = evolve(value._geometry, offset=settled(value._geometry.offset))
        case _:
            pass


def settled(value: Any) -> Any:
    """A value with its symbolic numbers, also those in tuples and frozen sets, replaced by theirs."""
    if isinstance(value, SymbolicNumber):
        return plain(value)
    if not isinstance(value, tuple | frozenset):
        return value
    elements = [*map(settled, value)]
    if all(x is y for x, y in zip(elements, value, strict=True)):
        return value
    make: Any = getattr(value, "_make", type(value))  # of a named tuple
    return make(elements)
