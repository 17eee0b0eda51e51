"""Objects in the result of a call that each call of a program makes anew.

NOTE [Objects in results]
A function may return a distribution, a dataclass, or another object that holds tensors.  In memory such an object is
its class, its ``__dict__``, its slots and, if the class is derived from a dict, a list, a set or ``partial``, what that
holds.  So a program makes another one by setting these; no method of the class is called, since what ``__init__`` does
has been recorded.  An object is made anew only if nobody can tell: it has no memory of another class written in C, no
finalizer, and nothing but the result holds it or refers to it weakly.
"""

import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.libraries import is_without_state, module_of
from fgrad.mutable.capture.scopes import Slots, namespace_of
from fgrad.mutable.types.type_names import MADE_IN_PYTHON

#: the classes written in C from which a class may be derived; from the first one that applies it has its entries
_LAYOUTS: tuple[type, ...] = (OrderedDict, dict, list, set, frozenset, partial, SimpleNamespace, object)
_POINTER = tuple.__itemsize__


@frozen
class Form:
    """A class whose objects are nothing but what they hold.

    Attributes:
      layout: the class written in C from which it is derived.
    """

    cls: type
    layout: Any

    def parts(self, x: Any) -> tuple[Any, list[Any]]:
        """The names of what an object holds, in its attributes, slots and entries, and what it is."""
        slots = Slots.of(x)
        attributes = namespace_of(x) or {}
        items = dict(slots.items()) if slots is not None else {}
        entries: Any = {}
        if issubclass(self.layout, dict):
            entries = {key: self.layout.__getitem__(x, key) for key in self.layout.__iter__(x)}
        elif self.layout in (list, set, frozenset):
            entries = dict(enumerate(self.layout.__iter__(x)))
        elif self.layout is partial:
            entries = {"func": x.func, "args": x.args, "keywords": x.keywords}
        names = tuple(attributes), tuple(items), tuple(entries)
        return names, [*attributes.values(), *items.values(), *entries.values()]

    def make(self, names: Any, values: Sequence[Any]) -> Any:
        """An object that holds some values under some names."""
        attributes, items, entries = names
        held = values[len(attributes) + len(items) :]
        if self.layout is partial:
            function, args, keywords = held
            made: Any = partial.__new__(self.cls, function, *args, **keywords)
        else:
            made = self.layout.__new__(self.cls, *([held] if self.layout is frozenset else []))
        if attributes:
            namespace_of(made).update(zip(attributes, values, strict=False))
        if items:
            slots = Slots.of(made)
            assert slots is not None
            slots.update(dict(zip(items, values[len(attributes) :], strict=False)))
        if self.layout is list:
            list.extend(made, held)
        elif self.layout is set:
            set.update(made, held)
        elif issubclass(self.layout, dict):
            for key, value in zip(entries, held, strict=True):
                self.layout.__setitem__(made, key, value)
        return made


def form_of(x: Any) -> Form | str:
    """The form of an object, or why it has none."""
    cls = type(x)
    layout = next(base for base in _LAYOUTS if issubclass(cls, base))
    slots = Slots.of(x)
    size = layout.__basicsize__ + _POINTER * (0 if slots is None else len(slots.slots))
    size += _POINTER * (cls.__dictoffset__ > 0 and not layout.__dictoffset__)
    size += _POINTER * (cls.__weakrefoffset__ > 0 and not layout.__weakrefoffset__)
    bases = cls.__mro__[: cls.__mro__.index(layout)]
    is_plain = all(base.__flags__ & MADE_IN_PYTHON for base in bases) and cls.__basicsize__ == size
    if not is_plain or any(is_without_state(module_of(base)) for base in bases):
        return "which is more than what it holds"
    if hasattr(cls, "__del__"):
        return "which has a finalizer"
    return "to which there is a weak reference" if weakref.getweakrefcount(x) else Form(cls, layout)


def held_elsewhere(objects: Sequence[Any], holders: Collection[int]) -> set[int]:
    """The ids of those objects that something else refers to than some holders, by their ids."""
    held = _held_elsewhere(objects, holders) if objects else set()
    if held:
        gc.collect()  # what refers to it may be garbage
        held = _held_elsewhere(objects, holders)
    return held


def _held_elsewhere(objects: Sequence[Any], holders: Collection[int]) -> set[int]:
    ids = {id(x) for x in objects}
    referrers = gc.get_referrers(*objects)
    # what only this list refers to is the tuple of that call's arguments: Python 3.13 has it among its results
    others = [referrers[k] for k in range(len(referrers)) if sys.getrefcount(referrers[k]) > 2]
    others = [x for x in others if id(x) not in holders and not isinstance(x, FrameType)]
    return {id(x) for other in others for x in gc.get_referents(other)} & ids
