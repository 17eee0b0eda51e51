"""Namespaces that are not dicts, adapted to dicts: slots, closures, functions, classes."""

from types import FunctionType, MemberDescriptorType
from typing import Any

from attrs import frozen

#: the value of an unbound name
MISSING: Any = object()


@frozen
class Slots:
    """The attributes of an object with slots, as a dict."""

    object: Any
    names: tuple[str, ...]

    @staticmethod
    def of(value: Any) -> "Slots | None":
        """The slots of an object, if it has any."""
        names = _slots_of(type(value))
        return Slots(value, names) if names else None

    def items(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self.object, name)) for name in self.names if hasattr(self.object, name)]

    def __len__(self) -> int:
        return len(self.items())

    def clear(self) -> None:
        for name, _ in self.items():
            object.__delattr__(self.object, name)

    def update(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self.object, name, value)


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
    """The parts of a function, its code and its defaults, as a dict."""

    owner: FunctionType

    def get(self, name: str, default: Any) -> Any:
        return getattr(self.owner, name, default)

    def __contains__(self, name: str) -> bool:
        return hasattr(self.owner, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self.owner, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.owner, name, value)


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


def _slots_of(cls: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases."""
    return tuple([name for base in cls.__mro__ for name in _own_slots(base)])


def _own_slots(cls: type) -> list[str]:
    names = vars(cls).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return [
        n for n in names if n not in ("__dict__", "__weakref__") and isinstance(vars(cls).get(n), MemberDescriptorType)
    ]
