"""Tensors whose values are what the last call of a program gave, and are read there when somebody asks.

NOTE [Owned tensors]
A step with 200 parameters replaces 400 arrays, counts as many versions and makes 200 gradients, of which mostly nobody
looks at any before the next call replaces them again.  So what a program writes can belong to an ``Owner``: it has the
arrays of the last call and the number of calls in one tuple, and a call that goes on from there stores another tuple.

- A storage that is owned has another class, and in the place of its array the place of that among the owner's.  Its
  version counter is the same.
- A gradient that each call makes anew is *pending*: its leaf has no such field, and it is made when somebody reads it.
- Whoever writes to one of the storages or counters, shows its memory to others, or reads a pending gradient, *releases*
  everything first: all is then as if the last call had made it, and no other call goes on from there.  To read a
  storage or a counter releases nothing.
- Once everything has been given back, the owner lets go of the arrays, so that each lives as long as its tensor.

A release first closes the owner.  A call looks whether its owner is open and stores the next tuple, and between the two
nothing is called, so that no other thread and no signal can come in (NOTE [Signals]); likewise where a storage changes
its class.  A release that is cut short leaves each storage either released or reading what it has read, and the next
one goes on.
"""

import threading
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.tensor.exported import Fixed
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor

#: the slots that the classes below put their properties before
_array: Any = Storage.__dict__["array"]
_value: Any = VersionCounter.__dict__["value"]


@frozen(eq=False)
class Part:
    """What an owned storage has for its array: the owner, the place there, and the class that it had."""

    owner: "Owner"
    place: int
    cls: type


@frozen(eq=False)
class Count:
    """What an owned counter has for its value: the owner, the value before the first call, what each call adds."""

    owner: "Owner"
    first: int
    each: int


class OwnedStorage(Storage):
    """A storage whose array is read from an owner."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        held = _array.__get__(self)
        while held.__class__ is Part:
            arrays = held.owner.state[0]
            if arrays:
                return arrays[held.place]
            held = _array.__get__(self)  # another thread has released it since
        return held

    @array.setter
    def array(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.settle()
        self.array = value  # it has the class that it had before

    def settle(self) -> None:
        held = _array.__get__(self)
        if held.__class__ is Part:
            held.owner.release()

    def resize(self, count: int) -> None:
        self.settle()
        self.resize(count)


class OwnedCounter(VersionCounter):
    """A version counter whose value is read from an owner."""

    __slots__ = ()

    @property
    def value(self) -> int:
        held = _value.__get__(self)
        return held.first + held.each * held.owner.state[1] if held.__class__ is Count else held

    @value.setter
    def value(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.settle()
        self.value = value  # it has the class that it had before

    def settle(self) -> None:
        held = _value.__get__(self)
        if held.__class__ is Count:
            held.owner.release()


@frozen(eq=False)
class Pending:
    """A gradient that each call makes anew.

    Attributes:
      leaf: whose gradient it is.
      like: a tensor that is as it will be, but for its array.
      place: of its array among the owner's.
    """

    leaf: Tensor
    like: Tensor
    place: int

    def made(self, arrays: Sequence[Any]) -> Tensor:
        """The gradient, in no mode and at no level: those of whoever asks for it are none of its own."""
        like, made = self.like, object.__new__(Tensor)
        made._storage = Storage(arrays[self.place], like._type.dtype, like._storage.strides)
        made._type = like._type
        made._counter = VersionCounter()
        made._counter.value = like._counter.value
        if like._requires_grad:
            made._requires_grad = True
        return made


class Owner:
    """What the last call of a program left, for the storages, counters and gradients that it owns.

    Attributes:
      state: the arrays, none of them once everything is released, and how many calls there have been.
      open: whether another call may go on from there.
      storages, counters: what reads its values here.
      gradients: those that may be pending.
    """

    __slots__ = ("state", "open", "storages", "counters", "gradients", "_lock")

    def __init__(self, gradients: Sequence[Pending]):
        self.state: tuple[Sequence[Any], int] = ((), 0)
        self.open: bool = True
        self.storages: list[Storage] = []
        self.counters: list[VersionCounter] = []
        self.gradients: Sequence[Pending] = gradients
        self._lock: Any = threading.RLock()

    def own(self, storages: Sequence[Storage], counters: Sequence[tuple[VersionCounter, int]]) -> bool:
        """Have storages, in the order of their places, and counters be read here; whether all can be.

        They say what they said.  With the first call the gradients become pending.
        """
        with self._lock:  # who writes to one of them meanwhile releases all of them
            return self._own(storages, counters)

    # loops that a lock is held around stand in functions of their own: see NOTE [Signals]

    def _own(self, storages: Sequence[Storage], counters: Sequence[tuple[VersionCounter, int]]) -> bool:
        arrays = [storage.array for storage in storages]
        self.state = arrays, 0
        for place, (storage, array) in enumerate(zip(storages, arrays, strict=True)):
            self.storages.append(storage)
            part = Part(self, place, storage.__class__)
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
        """Give everything back what the last call left; no call goes on from here."""
        self.open = False
        with self._lock:
            self._release()

    def _release(self) -> None:
        arrays, calls = self.state
        for storage in self.storages:
            _leave(storage, self, arrays)
        for counter in self.counters:
            _settle(counter, self, calls)
        for pending in self.gradients:
            leaf, held = pending.leaf, vars(pending.leaf)
            if leaf._owner is self:
                if calls and "_grad" not in held:
                    made = pending.made(arrays)
                    if "_grad" not in held:
                        leaf._grad = made
                leaf._owner = None
        self.state = (), calls

    def gradient(self, leaf: Tensor) -> Tensor | None:
        """The gradient of a leaf that had none of its own when somebody asked."""
        self.release()
        return vars(leaf).get("_grad")


# in these nothing is called between the first store and the last


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
        storage.array = arrays[part.place]


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
