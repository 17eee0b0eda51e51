"""Tensors whose values are the results of a program's last call, fetched on access.

NOTE [Owned tensors]
A step with 200 parameters replaces 400 arrays, bumps as many versions and makes 200 gradients, most of which are never
read before the next call replaces them.  So what a program writes can belong to an ``Owner``: it holds the arrays
of the last call and the number of calls in one pair, which the next call replaces.  The old arrays and gradients are
donated to that call (NOTE [Donated arrays]), so a reader waits while it runs.

- An owned storage has another class, and holds its array's index among the owner's in place of the array.  An owned
  counter likewise reads its value from the owner.
- A gradient made by each call is *pending*: its leaf has no such field, and it is made when it is read.
- Writing to one of the storages or counters, exporting its memory, or reading a pending gradient first *releases*
  everything: all is then as if the last call had made it, and no later call continues from there.  Reading a storage or
  a counter releases nothing.
- Once everything is released, the owner drops the arrays, so that each lives as long as its tensor.

Calls and releases hold the owner's lock, which keeps other threads out.  A signal handler can still intervene: it gets
copies.  While a storage changes its class, nothing is called (NOTE [Signals]).  An interrupted release leaves each
storage either released or still reading from the owner, and the next release completes it.
"""

import threading
from collections import deque
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any, Protocol

import numpy as np
from attrs import frozen

from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.exported import Fixed
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.device_of_value import accelerator_of, at
from fgrad.mutable.values.evaluation import constant


class Execution(Protocol):
    """A program that can overwrite arrays in their memory."""

    def unshared(self, arrays: Sequence[Any]) -> Sequence[Any]: ...
    def run_into(
        self,
        latest: Any,
        calls: int,
        written: Sequence[Any],
        replaced: Sequence[Any],
        others: Sequence[Any],
        stores: Sequence[Any],
    ) -> None: ...
    def is_usual(self, outs: Sequence[Any]) -> bool: ...


class Unexpected(Exception):
    """What a program takes for granted does not hold; nothing has changed."""


#: the slots that the properties of the classes below shadow
_array: Any = Storage.__dict__["array"]
_value: Any = VersionCounter.__dict__["value"]


@frozen(eq=False)
class Part:
    """What an owned storage has in place of its array: the owner, the array's index there, the former class."""

    owner: "Owner"
    index: int
    cls: type


@frozen(eq=False)
class Count:
    """What an owned counter has in place of its value: the owner, the first value, the increment per call."""

    owner: "Owner"
    first: int
    each: int


class OwnedStorage(Storage):
    """A storage whose array is read from an owner."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        while self.__class__ is OwnedStorage:
            part = _array.__get__(self)
            array = part.owner.array(part.index) if part.__class__ is Part else part
            if array is not None:
                return array
        return self.array  # another thread has released it in the meantime

    @array.setter
    def array(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.settle()
        self.array = value  # it has the class that it had before

    def settle(self) -> None:
        part = _array.__get__(self)
        if part.__class__ is Part:
            part.owner.release()

    def resize(self, count: int) -> None:
        self.settle()
        self.resize(count)


class OwnedCounter(VersionCounter):
    """A version counter whose value is read from an owner."""

    __slots__ = ()

    @property
    def value(self) -> int:
        count = _value.__get__(self)
        return count.first + count.each * count.owner.calls if count.__class__ is Count else count

    @value.setter
    def value(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.settle()
        self.value = value  # it has the class that it had before

    def settle(self) -> None:
        count = _value.__get__(self)
        if count.__class__ is Count:
            count.owner.release()


@frozen(eq=False)
class Pending:
    """A gradient made anew by each call.

    Attributes:
      leaf: the leaf whose gradient it is.
      like: a tensor with all its fields but the array.
      place: the index of its array among the owner's gradients.
    """

    leaf: Tensor
    like: Tensor
    index: int

    def new_gradient(self, arrays: Sequence[Any]) -> Tensor:
        """The gradient, made outside the modes and levels of the reader."""
        like, gradient = self.like, object.__new__(Tensor)
        gradient._storage = Storage(arrays[self.index], like._type.dtype, like._storage.strides)
        gradient._type = like._type
        gradient._counter = VersionCounter()
        gradient._counter.value = like._counter.value
        if like._requires_grad:
            gradient._requires_grad = True
        return gradient


class Owner:
    """The results of a program's last call, for the storages, counters and gradients that it owns.

    Attributes:
      latest: holds one pair: the arrays and gradients, and the number of calls.
      open: whether another call may continue from there.
      busy: whether one is running; the arrays may be gone meanwhile.
      lent: whether an array has been read since the last call.
      released: whether everything has been released.
      storages, counters: those that read their values here.
      gradients: those that may be pending.
    """

    __slots__ = ("latest", "open", "busy", "lent", "released", "storages", "counters", "gradients", "_lock")

    def __init__(self, gradients: Sequence[Pending]):
        self.latest: deque[Any] = deque([(((), ()), 0)], maxlen=1)
        self.open: bool = True
        self.busy: bool = False
        self.lent: bool = True
        self.released: bool = False
        self.storages: list[Storage] = []
        self.counters: list[VersionCounter] = []
        self.gradients: Sequence[Pending] = gradients
        self._lock: Any = threading.RLock()

    @property
    def calls(self) -> int:
        return self.latest[0][1]

    def array(self, index: int) -> Any:
        """An array of the last call; None once everything has been released."""
        self.lent = True
        latest = self.latest[0]
        arrays = latest[0][0]
        array = arrays[index] if arrays else None
        if not self.busy and self.latest[0] is latest:
            return array  # a call that starts from now on sees that it is in use
        with self._lock:
            if self.busy:  # this is a signal handler, in the busy thread
                return _copied(self.latest[0][0][0][index])
        return self.array(index)

    def run_next(
        self,
        run: Execution,
        others: Sequence[Any],
        stores: Sequence[Any],
        kept: deque[Any],
        undo: Sequence[Any],
    ) -> Any:
        """Run a program that continues from the last call; returns its results, or None if it may not.

        Other threads wait until it has run.  Then its results are stored, or nothing has changed.  In the same moment
        the stores, iterators of one element, set something else.  The results are put into ``kept`` as well, in case
        that a signal interrupts what follows.

        Raises:
          Unexpected: what the program takes for granted does not hold.  Iterators in ``undo`` undo the stores.
        """
        with self._lock:
            return self._run_next(run, others, stores, kept, undo) if self.open else None

    def _run_next(
        self,
        run: Execution,
        others: Sequence[Any],
        stores: Sequence[Any],
        kept: deque[Any],
        undo: Sequence[Any],
    ) -> Any:
        before = self.latest[0]
        outs, calls = before
        (arrays, gradients), usual = outs[:2], True
        try:
            self.busy = True
            if self.lent:
                arrays = run.unshared(arrays)
            run.run_into(self.latest, calls + 1, arrays, gradients, others, stores)
        finally:
            self.busy = False
            if self.latest[0] is not before:
                self.lent = False
                try:
                    usual = self._settle(run, before, undo)
                except BaseException:  # a signal: the call is settled before its error goes on
                    self._settle(run, before, undo)
                    raise
        if not usual:
            raise Unexpected
        outs, calls = self.latest[0]
        kept.append(outs)
        self.latest.append((outs[:2], calls))
        return outs

    def _settle(self, run: Execution, before: Any, undo: Sequence[Any]) -> bool:
        """Complete a call that has run, or take it back if its program gave the old values; whether it counts."""
        (_, gradients, *_), calls = before
        outs, now = self.latest[0]
        if now == calls:
            return False
        if not run.is_usual(outs):
            deque(chain.from_iterable(undo), 0)
            self.latest.append(((outs[0], gradients), calls))
            return False
        if not calls:  # in one call: see NOTE [Signals]
            deque(map(dict.pop, self._fields(), repeat("_grad"), repeat(None)), 0)
            changes.fields = object()
        return True

    def _fields(self) -> list[dict[str, Any]]:
        return [fields_of(pending.leaf) for pending in self.gradients]

    def own(self, storages: Sequence[Storage], counters: Sequence[tuple[VersionCounter, int]]) -> bool:
        """Make storages (in order) and counters read their values here; returns whether all can.

        Their values stay the same.  With the first call the gradients become pending.
        """
        with self._lock:  # a write to one of them in the meantime releases all
            return self._own(storages, counters)

    # loops inside a lock are in functions of their own: see NOTE [Signals]

    def _own(self, storages: Sequence[Storage], counters: Sequence[tuple[VersionCounter, int]]) -> bool:
        arrays = tuple([storage.array for storage in storages])
        self.latest.append(((arrays, ()), 0))
        for index, (storage, array) in enumerate(zip(storages, arrays, strict=True)):
            self.storages.append(storage)
            part = Part(self, index, storage.__class__)
            if part.cls not in (Storage, Fixed) or not _enter(storage, array, part):
                return False
        for counter, each in counters:
            self.counters.append(counter)
            count = Count(self, counter.value, each)
            if counter.__class__ is not VersionCounter or not _count(counter, count):
                return False
        for each in self.gradients:
            each.leaf._owner = self
        return True

    def release(self) -> None:
        """Store the last call's results in all storages, counters and gradients; no call continues from here."""
        self.open = False
        with self._lock:
            self._release()

    def _release(self) -> None:
        outs, calls = self.latest[0]
        arrays, gradients = outs[:2]
        if self.busy:  # as in ``array``
            arrays, gradients = tuple(map(_copied, arrays)), tuple(map(_copied, gradients))
        for storage in self.storages:
            _leave(storage, self, arrays)
        for counter in self.counters:
            _settle(counter, self, calls)
        for pending in self.gradients:
            leaf, fields = pending.leaf, fields_of(pending.leaf)
            if leaf._owner is self:
                if calls and "_grad" not in fields:
                    gradient = pending.new_gradient(gradients)
                    if "_grad" not in fields:
                        leaf._grad = gradient
                leaf._owner = None
        changes.fields = object()
        self.latest.append((((), ()), calls))
        self.released = True

    def gradient(self, leaf: Tensor) -> Tensor | None:
        """The gradient of a leaf without a gradient of its own, made on access."""
        self.release()
        return fields_of(leaf).get("_grad")


def _copied(array: Any) -> Any:
    return at(constant(np.asarray(array)), accelerator_of(array))


# these call nothing between the first store and the last


def _enter(storage: Storage, array: Any, part: Part) -> bool:
    if storage.__class__ is not part.cls or storage.array is not array:
        return False
    storage.array = part
    storage.__class__ = OwnedStorage
    return True


def _leave(storage: Storage, owner: Owner, arrays: Sequence[Any]) -> None:
    part = _array.__get__(storage)
    if part.__class__ is Part and part.owner is owner:
        storage.__class__ = part.cls
        storage.array = arrays[part.index]


def _count(counter: VersionCounter, count: Count) -> bool:
    if counter.value != count.first:
        return False
    counter.value = count  # type: ignore[assignment]
    counter.__class__ = OwnedCounter
    return True


def _settle(counter: VersionCounter, owner: Owner, calls: int) -> None:
    count = _value.__get__(counter)
    if count.__class__ is Count and count.owner is owner:
        counter.__class__ = VersionCounter
        counter.value = count.first + count.each * calls
