"""Values that are the same at each call, and when two of them are."""

import sys
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType
from typing import Any
from weakref import ref

import numpy as np

from fgrad.mutable.capture.scopes import namespace_of
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.dtypes import dtype
from fgrad.mutable.types.size import Size
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.optim.optimizer import Optimizer

#: compared by value
_VALUES = (type(None), bool, int, float, complex, str, bytes, np.generic, device, Size, range)
_IMMUTABLE = (*_VALUES, dtype, Enum, EllipsisType)

#: what has state that programs are made for; these live as long as somebody else holds them
WEAKLY_HELD = (Module, Optimizer)


def compared(x: Any) -> Any:
    """What is equal for two values that are the same: of numbers, texts and sizes by value, of others by identity."""
    # zeros differ in their signs
    return (x.__class__, x if x and x == x else repr(x)) if isinstance(x, _VALUES) else Same(x)


class Same:
    """An object compared by identity.

    One with state that programs are made for (a module, say) is not kept alive; once it is gone, ``value`` is None and
    equal to nothing else.
    """

    __slots__ = ("is_weak", "_held", "_hash")

    def __init__(self, value: Any):
        self.is_weak: bool = isinstance(value, WEAKLY_HELD)
        self._held: Any = ref(value) if self.is_weak else value
        self._hash: int = id(value)

    @property
    def value(self) -> Any:
        """The object."""
        return self._held() if self.is_weak else self._held

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Same)
            and self._hash == other._hash
            and (value := self.value) is not None
            and other.value is value
        )

    def __hash__(self) -> int:
        return self._hash


def is_constant(x: Any) -> bool:
    """Whether a value never changes, so that each call may return the same one."""
    return isinstance(x, _IMMUTABLE) or (isinstance(x, type | FunctionType | BuiltinFunctionType) and _has_name(x))


def _has_name(x: Any) -> bool:
    """Whether a class or a function is found under its name in its module."""
    found: Any = sys.modules.get(x.__module__)
    for name in x.__qualname__.split("."):
        found = (namespace_of(found) or {}).get(name)
    return found is x
