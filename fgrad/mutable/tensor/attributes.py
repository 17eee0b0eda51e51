"""A tensor's ``__dict__``: the attributes that the user has set, without the tensor's own fields.

Libraries copy attributes from one tensor to another (``result.__dict__.update(x.__dict__)``).  In PyTorch a tensor's
elements and history are no attributes there, so they must not be copied along.
"""

import copyreg
from collections.abc import Callable, MutableMapping
from typing import Any


class HasFields:
    """Has the fields of a tensor and the user's attributes, which Python keeps in one dict."""


#: the dict of all of them
fields_of: Callable[[Any], dict[str, Any]] = vars(HasFields)["__dict__"].__get__


class UserAttributes(dict[str, Any]):
    """The attributes that the user has set on a tensor; what is written here is set on the tensor."""

    __slots__ = ("_fields", "_own")

    def __init__(self, fields: dict[str, Any], own: frozenset[str]):
        super().__init__({name: value for name, value in fields.items() if name not in own})
        self._fields = fields
        self._own = own

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self._own:
            raise AttributeError(f"a tensor has a field {name!r} of its own: set another attribute, or use its methods")
        self._fields[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self._fields[name]

    # those of ``dict`` would not call the two methods above
    update: Any = MutableMapping.update
    setdefault: Any = MutableMapping.setdefault
    pop: Any = MutableMapping.pop
    popitem: Any = MutableMapping.popitem
    clear: Any = MutableMapping.clear

    def __ior__(self, other: Any) -> "UserAttributes":  # type: ignore[override]
        self.update(other)
        return self


def slots_of(tensor: Any) -> dict[str, Any]:
    """What the slots hold that a class of tensors has (``__slots__``)."""
    names: list[str] = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def state_of(tensor: Any) -> Any:
    """The user's attributes, and with them what the slots hold, as pickles have them."""
    if type(tensor).__getstate__ is not object.__getstate__:
        return tensor.__getstate__()
    attributes, slots = dict(vars(tensor)), slots_of(tensor)
    return (attributes, slots) if slots else attributes
