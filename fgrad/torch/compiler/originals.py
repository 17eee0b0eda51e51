"""The functions behind compiled ones.

An attribute of a compiled function does not tell: ``functools.wraps`` copies it to other functions, and a class's
``__getattr__`` may hand it on.
"""

from types import FunctionType
from typing import Any
from weakref import WeakSet

_COMPILED: WeakSet[Any] = WeakSet()


def note_compiled(call: Any, original: Any) -> None:
    """Note that a function is the compiled form of another one."""
    call._torchdynamo_orig_callable = original
    _COMPILED.add(call)


def original_of(function: Any) -> Any:
    """The function behind a compiled one; any other function itself."""
    is_compiled = isinstance(function, FunctionType) and function in _COMPILED
    return function._torchdynamo_orig_callable if is_compiled else function  # type: ignore[attr-defined]
