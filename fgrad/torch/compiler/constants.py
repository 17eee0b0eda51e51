"""Values that are the same at each call, and when two of them are."""

import sys
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType
from typing import Any

import numpy as np

from fgrad.mutable.capture.scopes import namespace_of
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.dtypes import dtype
from fgrad.mutable.types.size import Size

#: compared by value
_VALUES = (type(None), bool, int, float, complex, str, bytes, np.generic, device, Size, range)
_IMMUTABLE = (*_VALUES, dtype, Enum, EllipsisType)


def compared(x: Any) -> Any:
    """What is equal for two values that are the same: of numbers, texts and sizes by value, of others by identity."""
    # zeros differ in their signs
    return (x.__class__, x if x and x == x else repr(x)) if isinstance(x, _VALUES) else Same(x)


class Same:
    """An object compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value: Any = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def is_constant(x: Any) -> bool:
    """Whether a value never changes, so that each call may return the same one."""
    return isinstance(x, _IMMUTABLE) or (isinstance(x, type | FunctionType | BuiltinFunctionType) and _has_name(x))


def _has_name(x: Any) -> bool:
    """Whether a class or a function is found under its name in its module."""
    found: Any = sys.modules.get(x.__module__)
    for name in x.__qualname__.split("."):
        found = (namespace_of(found) or {}).get(name)
    return found is x
