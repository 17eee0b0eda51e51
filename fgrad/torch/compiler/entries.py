"""Where the user's objects hold the tensors that a step hands on to the next one.

A hidden state, an average or a velocity of the user's own is in an attribute, an entry of a dict or a list, or a
variable; sometimes with others in a tuple, a list or a dict that a call makes anew.  So a tensor's place is an entry of
something that exists before the first call, and a path from there.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.capture.scopes import MISSING, Items, as_dict, entries_of
from fgrad.mutable.capture.snapshot import Snapshot
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.containers import put_together, take_apart


@frozen(eq=False)
class Entry:
    """The place of a tensor that the second call reads.

    Attributes:
      holding: an entry of something that is there before the first call.
      path: the keys that lead from its value to the tensor.
      first, second: its values before the first call and before the second.
    """

    holding: Holding
    path: tuple[Any, ...]
    first: Any
    second: Any

    @property
    def before(self) -> Any:
        """What was in the place of the tensor before the first call."""
        return _within(self.first, self.path)

    def read(self) -> Any:
        """What is in the place of the tensor now."""
        return _within(self.holding.read(), self.path)

    def has_begun(self) -> bool:
        """Whether a call has set the entry."""
        return self.holding.read() is not self.first

    def beginning(self, like: Callable[[Tensor], Callable[[], Tensor]]) -> Callable[[], None]:
        """A function that sets the entry as the first call does; ``like`` gives what makes a tensor like its."""
        leaves = list[Any]()
        structure = take_apart(self.second, leaves)
        makers = [like(x) if is_tensor(x) else partial(_itself, x) for x in leaves]
        holding = self.holding

        def begin() -> None:
            holding.container[holding.key] = put_together(structure, iter([make() for make in makers]))

        return begin

    def forget(self) -> None:
        """Set the value before the first call."""
        if self.first is MISSING:
            self.holding.container.pop(self.holding.key, None)
        else:
            self.holding.container[self.holding.key] = self.first


@frozen
class Memory:
    """The storages that tensors had when a snapshot was made: a call may have given them others (``x.data = y``)."""

    storage_of: dict[Tensor, Storage]
    tensors_of: dict[Storage, list[Tensor]]

    @staticmethod
    def of(snapshot: Snapshot) -> "Memory":
        storage_of = {x: snapshot.containers[id(fields_of(x))][1]["_storage"] for x in snapshot.tensors}
        tensors_of = dict[Storage, list[Tensor]]()
        for x, storage in storage_of.items():
            tensors_of.setdefault(storage, []).append(x)
        return Memory(storage_of, tensors_of)


def entries_between(first: Snapshot, second: Snapshot) -> dict[int, Entry]:
    """The places of the tensors that the second call could reach, by their ids; both calls have run.

    Only those that it leaves as it has found them, but for the values of tensors: then so does each later call.
    """
    found = dict[int, Entry]()
    for holding, one, two in _holdings(first, second):
        if _form(holding.read()) == _form(two):
            for path, tensor in _tensors_in(two, first):
                found.setdefault(id(tensor), Entry(holding, path, one, two))
    return found


def _holdings(first: Snapshot, second: Snapshot) -> Iterator[tuple[Holding, Any, Any]]:
    """The entries and variables that are there before the first call, with their values before either call.

    An entry that the first call makes counts, too, if the second makes no others: else each call would.
    """
    fields = {id(fields_of(x)) for x in second.tensors}
    for number, (container, before) in second.containers.items():
        entries = as_dict(container)
        if entries is None or number in fields or number not in first.containers:
            continue
        old = dict(entries_of(first.containers[number][1]))
        is_growing = isinstance(entries, Items) or len(entries) != len(before)
        for key, value in entries_of(before):
            if key in old or not is_growing:
                yield Holding(entries, key), old.get(key, MISSING), value
    for place, (scope, name, value) in second.variables.items():
        if place in first.variables:
            yield Holding(scope, name), first.variables[place][2], value


def _itself(value: Any) -> Any:
    return value


_CONTAINERS = (list, dict, OrderedDict)


def _tensors_in(value: Any, first: Snapshot) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """The tensors of a value with the keys that lead to them; containers that an earlier entry has are left out."""
    if is_tensor(value):
        yield (), value
    elif isinstance(value, tuple) or (type(value) in _CONTAINERS and id(value) not in first.containers):
        for key, x in value.items() if isinstance(value, dict) else enumerate(value):
            yield from [((key, *path), tensor) for path, tensor in _tensors_in(x, first)]


def _within(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        try:
            value = value[key]
        except (TypeError, LookupError):
            return MISSING
    return value


def _form(value: Any) -> Any:
    """A value without its tensors; equal for values that differ only in these."""
    leaves = list[Any]()
    structure = take_apart(value, leaves)
    return structure, [None if is_tensor(x) else (x.__class__, repr(x) if isinstance(x, float) else x) for x in leaves]
