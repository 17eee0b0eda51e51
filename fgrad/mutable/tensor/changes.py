"""When something that compiled calls depend on was last written.

NOTE [Changes]
A step with 200 parameters depends on thousands of attributes, entries and fields that hardly ever change.  To look at
them all takes longer than anything else that a call does beside its program, since after the program none of them is in
the processor's caches.  So those that are written in few places say so: ``changes.attributes`` is another object after
each write to an attribute of a module or to one of a module's tables, and ``changes.fields`` after each write to a
field of a tensor that was there before.  While it is the object that it was when a call last looked, nothing has to be
looked at again.

- A write is noted after it is made, and nothing is called between the two (NOTE [Signals]), or the note stands in a
  ``finally``; so who has looked in between looks again.
- A write to another tensor or module has a call look once more, and no more than that.
- A module whose ``__dict__`` somebody has asked for can be written to without a word, and so can an object of any other
  class.  These are looked at before each call.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class Changes:
    """Holds objects that are others after each write: to attributes of modules, and to fields of tensors."""

    __slots__ = ("attributes", "fields")

    def __init__(self) -> None:
        self.attributes: object = object()
        self.fields: object = object()


#: one for the process: writes in any thread count
changes: Changes = Changes()


def noted(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes, and has that noted."""

    @functools.wraps(method)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        now = object()
        try:
            return method(self, *args, **kwargs)
        finally:
            changes.attributes = now

    return write


_WRITES = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update")


class NotedDict(dict[Any, Any]):
    """A dict whose writes are noted.  Copies and pickles are plain dicts."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return dict, (), None, None, iter(self.items())


class NotedOrderedDict(OrderedDict[Any, Any]):
    """An ``OrderedDict`` whose writes are noted.  Copies and pickles are plain ones."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return OrderedDict, (), None, None, iter(self.items())

    def __repr__(self) -> str:
        return repr(OrderedDict(self))


for _cls, _plain in ((NotedDict, dict), (NotedOrderedDict, OrderedDict)):
    for _name in (*_WRITES, *(("move_to_end",) if _plain is OrderedDict else ())):
        setattr(_cls, _name, noted(getattr(_plain, _name)))
