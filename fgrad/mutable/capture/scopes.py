"""Namespaces that are not dicts, adapted to dicts: slots, lists, closures, functions, classes."""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from contextvars import Context, ContextVar
from functools import cache
from types import FunctionType, MemberDescriptorType
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.libraries import is_own

#: the value of an unbound name
MISSING: Any = object()


@frozen
class Slots:
    """The attributes of an object with slots, as a dict."""

    owner: Any
    #: by name; a property of a subclass may hide one
    slots: dict[str, MemberDescriptorType]

    @staticmethod
    def of(value: Any) -> "Slots | None":
        """The slots of an object, if it has any."""
        slots = _slots_of(type(value))
        return Slots(value, slots) if slots else None

    def items(self) -> list[tuple[str, Any]]:
        return list(self._items())

    def _items(self) -> Iterator[tuple[str, Any]]:
        for name, slot in self.slots.items():
            try:
                yield name, slot.__get__(self.owner)
            except AttributeError:  # not bound
                continue

    def __len__(self) -> int:
        return len(self.items())

    def get(self, name: str, default: Any) -> Any:
        try:
            return self.slots[name].__get__(self.owner)
        except AttributeError:  # not bound
            return default

    def __contains__(self, name: str) -> bool:
        return self.get(name, MISSING) is not MISSING

    def __setitem__(self, name: str, value: Any) -> None:
        self.slots[name].__set__(self.owner, value)

    def pop(self, name: str, default: None) -> None:
        if name in self:
            self.slots[name].__delete__(self.owner)

    def clear(self) -> None:
        for name, _ in self.items():
            self.slots[name].__delete__(self.owner)

    def update(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self.slots[name].__set__(self.owner, value)


@frozen
class Items:
    """The items of a list or a deque, by position, as a dict."""

    owner: list[Any] | deque[Any]

    def items(self) -> list[tuple[int, Any]]:
        return [*enumerate(self.owner)]

    def __len__(self) -> int:
        return len(self.owner)

    def get(self, position: int, default: Any) -> Any:
        return self.owner[position] if position in self else default

    def __contains__(self, position: int) -> bool:
        return position < len(self.owner)

    def __setitem__(self, position: int, value: Any) -> None:
        self.owner[position] = value


@frozen
class TupleItems:
    """The items of tuples that a dict holds, by the entry's key, the position, and the length of the tuple."""

    entries: Any

    @property
    def owner(self) -> Any:
        return self.entries if isinstance(self.entries, dict) else self.entries.owner

    def get(self, place: tuple[Any, int, int], default: Any) -> Any:
        key, position, length = place
        found = self.entries.get(key, None)
        return found[position] if type(found) is tuple and len(found) == length else default


@frozen(eq=False)
class Entries:
    """The entries of a dict whose class overrides a dict's methods, without these."""

    owner: dict[Any, Any]
    #: the class whose methods are called
    kind: type[dict[Any, Any]]

    def items(self) -> Any:
        return self.kind.items(self.owner)

    def __len__(self) -> int:
        return dict.__len__(self.owner)

    def get(self, key: Any, default: Any) -> Any:
        return dict.get(self.owner, key, default)

    def __contains__(self, key: Any) -> bool:
        return dict.__contains__(self.owner, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.kind.__setitem__(self.owner, key, value)

    def pop(self, key: Any, default: None) -> None:
        if key in self:
            self.kind.__delitem__(self.owner, key)

    def clear(self) -> None:
        self.kind.clear(self.owner)

    def update(self, values: dict[Any, Any]) -> None:
        for key, value in values.items():
            self[key] = value


def identity_of(container: Any) -> int:
    """The id of a container, or of the owner of what is adapted to one."""
    return id(container if isinstance(container, dict | list | set | deque) else container.owner)


def namespace_of(value: Any) -> Any:
    """The attributes of an object as a dict, if it has any, without its ``__getattr__``, which may raise anything."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def as_dict(container: Any) -> Any:
    """A container whose entries can be set, as a dict; None for another one."""
    if type(container) is list:
        return Items(container)
    if isinstance(container, dict) and _overrides(type(container)):
        return Entries(container, OrderedDict if isinstance(container, OrderedDict) else dict)
    return container if isinstance(container, dict | Slots) else None


@cache
def _overrides(cls: type) -> bool:
    """Whether the user's code, or a library's, overrides a method of a dict."""
    bases = [base for base in cls.__mro__ if not is_own(base.__module__) and base not in _DICTS]
    return any(name in vars(base) for base in bases for name in _METHODS)


_DICTS = (*defaultdict.__mro__, OrderedDict, Counter)
_METHODS = ("items", "__len__", "get", "__contains__", "__setitem__", "__delitem__", "pop", "clear", "update")


def entries_of(contents: dict[Any, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    """The entries of a container's copy, by key or by position."""
    return contents.items() if isinstance(contents, dict) else enumerate(contents)


@frozen
class Variable:
    """A variable of a closure, as a dict of one entry."""

    owner: Any

    def get(self, name: str, default: Any) -> Any:
        try:
            return self.owner.cell_contents
        except ValueError:  # not bound
            return default

    def __contains__(self, name: str) -> bool:
        return self.get(name, MISSING) is not MISSING

    def __getitem__(self, name: str) -> Any:
        return self.owner.cell_contents

    def __setitem__(self, name: str, value: Any) -> None:
        self.owner.cell_contents = value


@frozen
class Parts:
    """The parts of a function (its code, its defaults), of an exception or of a ``defaultdict``, as a dict."""

    owner: FunctionType | BaseException | defaultdict[Any, Any]

    def get(self, name: str, default: Any) -> Any:
        return getattr(self.owner, name, default)

    def __contains__(self, name: str) -> bool:
        return hasattr(self.owner, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self.owner, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.owner, name, value)


@frozen
class ContextValue:
    """The value of a context variable, as a dict of one entry."""

    owner: ContextVar[Any]

    def get(self, name: str, default: Any) -> Any:
        return self.owner.get(default)

    def __contains__(self, name: str) -> bool:
        return self.get(name, MISSING) is not MISSING

    def __getitem__(self, name: str) -> Any:
        return self.owner.get()

    def __setitem__(self, name: str, value: Any) -> None:
        if value is MISSING:  # only a token of the call that set it could unset it
            try:
                value = Context().run(self.owner.get)
            except LookupError:  # it has no default
                return
        self.owner.set(value)


@frozen
class ClassAttributes:
    """The attributes of a class, without those of its bases, as a dict."""

    owner: type

    def get(self, name: str, default: Any) -> Any:
        return self.owner.__dict__.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.owner.__dict__

    def __getitem__(self, name: str) -> Any:
        return self.owner.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        type.__setattr__(self.owner, name, value)


def _slots_of(cls: type) -> dict[str, MemberDescriptorType]:
    """The slots of a class and its bases."""
    return {name: vars(base)[name] for base in reversed(cls.__mro__) for name in _own_slots(base)}


def _own_slots(cls: type) -> list[str]:
    names = vars(cls).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return [
        n for n in names if n not in ("__dict__", "__weakref__") and isinstance(vars(cls).get(n), MemberDescriptorType)
    ]
