"""Storages that hold a traced value for the thread that records, and their array for all others.

NOTE [Lifted storages]
While a call is recorded, the storages from outside hold traced values.  Another thread that reads one of them at that
moment must not get a traced value.  So such a storage has another class, and holds both:

- The thread that records reads and writes the traced value.
- Other threads read the array.  What they write replaces the array, not the traced value, and is there afterwards.
  One that exports the memory waits for the end of the recording.

A storage that is exported, or of another special class, holds the traced value itself, for all threads.
"""

from threading import Event, get_ident
from typing import Any

from attrs import define, field

from fgrad.mutable.tensor.storage import Storage

#: the slot that the property below shadows
_array: Any = Storage.__dict__["array"]


@define(eq=False)
class Lifted:
    """What a lifted storage has in place of its array.

    Attributes:
      thread: the one that records.
      traced: the value there.
      array: the value elsewhere.
      over: set when the storage has its array again.
    """

    traced: Any
    array: Any
    thread: int = field(factory=get_ident)
    over: Event = field(factory=Event)


class LiftedStorage(Storage):
    """A storage whose value depends on the thread."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        value = _array.__get__(self)
        if value.__class__ is not Lifted:
            return value
        return value.traced if get_ident() == value.thread else value.array

    @array.setter
    def array(self, new: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        value = _array.__get__(self)
        if value.__class__ is not Lifted:
            _array.__set__(self, new)
        elif get_ident() == value.thread:
            value.traced = new
        else:
            value.array = new

    def settle(self) -> None:
        value = _array.__get__(self)
        if value.__class__ is not Lifted:
            return
        if get_ident() == value.thread:
            settle(self, value.traced)
        else:
            while _array.__get__(self) is value:  # an interrupt may come before it is set
                value.over.wait(0.01)


def lift(storage: Storage, traced: Any) -> None:
    """Let a storage hold a traced value, if possible for this thread alone."""
    storage.settle()
    array = storage.array
    if storage.__class__ is Storage:
        lifted = Lifted(traced, array)
        storage.__class__ = LiftedStorage  # until it holds the record, all threads read the array
        _array.__set__(storage, lifted)
    else:
        storage.array = traced


def settle(storage: Storage, array: Any) -> None:
    """Let a storage hold an array for all threads, and have its own class again."""
    lifted = _lifted(storage)
    if storage.__class__ is not LiftedStorage:
        storage.array = array
        return
    _array.__set__(storage, array)
    storage.__class__ = Storage
    if lifted is not None:
        lifted.over.set()


def restore(storage: Storage, array: Any) -> None:
    """Undo ``lift``; what other threads have written in the meantime stays."""
    lifted = _lifted(storage)
    settle(storage, array if lifted is None else lifted.array)


def _lifted(storage: Storage) -> Lifted | None:
    """What a storage holds if it is lifted, not half so by an interrupt."""
    value = _array.__get__(storage) if storage.__class__ is LiftedStorage else None
    return value if value.__class__ is Lifted else None
