"""When something that compiled calls depend on was last written.

NOTE [Changes]
A step with 200 parameters depends on thousands of attributes, entries and fields that hardly ever change.  Comparing
them all takes longer than the rest of a call besides its program, since after the program none of them is in the
processor's caches.  So where there are few places that write, each write is noted: ``changes.attributes`` becomes a new
object after each write to an attribute of a module or to one of a module's tables, and ``changes.fields`` after each
write to a field of an existing tensor.  While it is the same object as at the last comparison, nothing has to be
compared again.

- A write is noted after it is made, and nothing is called in between (NOTE [Signals]), or the note is in a ``finally``;
  so a comparison made in between is repeated.
- A write to an unrelated tensor or module costs one more comparison.
- Writes to a module whose ``__dict__``, ``_parameters`` or ``_buffers`` has been accessed, and to objects of other
  classes, go unnoticed.  These are compared before each call.
"""

import copy
import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class Changes:
    """Two objects, replaced after each write to an attribute of a module and to a field of a tensor."""

    __slots__ = ("attributes", "fields")

    def __init__(self) -> None:
        self.attributes: object = object()
        self.fields: object = object()


#: one for the process: writes in any thread count
changes: Changes = Changes()


def noted(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that writes, and notes it."""

    @functools.wraps(method)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        now = object()
        try:
            return method(self, *args, **kwargs)
        finally:
            changes.attributes = now

    return write


#: writes to a plain dict
set_entry: Callable[..., Any] = noted(dict.__setitem__)
pop_entry: Callable[..., Any] = noted(dict.pop)

_WRITES = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update")


class NotedDict(dict[Any, Any]):
    """A dict whose writes are noted.  Copies and pickles are plain dicts."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return dict, (), None, None, iter(self.items())


class NotedOrderedDict(OrderedDict[Any, Any]):
    """An ``OrderedDict`` whose writes are noted.  Shallow copies and pickles are plain ones."""

    __slots__ = ()

    # a handle that is copied with the dict refers to the copy: nobody may put another dict in its place
    def __deepcopy__(self, memo: dict[int, Any]) -> "NotedOrderedDict":
        copied = memo[id(self)] = NotedOrderedDict()
        copied.update((copy.deepcopy(key, memo), copy.deepcopy(value, memo)) for key, value in self.items())
        return copied

    def __reduce__(self) -> Any:
        return OrderedDict, (), None, None, iter(self.items())

    def __repr__(self) -> str:
        return repr(OrderedDict(self))


for _cls, _plain in ((NotedDict, dict), (NotedOrderedDict, OrderedDict)):
    for _name in (*_WRITES, *(("move_to_end",) if _plain is OrderedDict else ())):
        setattr(_cls, _name, noted(getattr(_plain, _name)))
