"""Python's module ``math`` on symbolic numbers (NOTE [Symbolic numbers]).

A schedule computes a rate by ``math.cos``, which would take a number's value out of sight.  So while a call with
symbolic numbers is recorded, the functions of ``math`` record what they compute from these.  For all other numbers, and
so for other threads, they are what they were.
"""

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

from fgrad.mutable.types.symbolic import SymbolicNumber, applied

_FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "comb", "copysign", "cos", "cosh",
    "degrees", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "factorial", "floor", "fmod", "gamma", "gcd", "hypot",
    "isqrt", "lcm", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "perm", "pow", "radians", "remainder", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_TESTS = ("isfinite", "isinf", "isnan")


class symbolic_mathematics:
    """A block in which the functions of ``math`` take symbolic numbers."""

    _lock: Any = threading.Lock()
    _open: int = 0

    def __enter__(self) -> None:
        with self._lock:
            symbolic_mathematics._open += 1
            _install(_RECORDED)

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            symbolic_mathematics._open -= 1
            if not symbolic_mathematics._open:
                _install(_ORIGINAL)


def _install(functions: dict[str, Callable[..., Any]]) -> None:
    """Put our functions, or the original ones, into the module, where nobody else has put one."""
    for name, function in functions.items():
        if getattr(math, name) in (_ORIGINAL[name], _RECORDED[name]):
            setattr(math, name, function)


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def on_numbers(*args: Any) -> Any:
        return applied(function, *args)

    return on_numbers


def _recorded_test(function: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @functools.wraps(function)
    def on_number(x: Any, /) -> bool:
        return x._numbers.outcome(function, x) if isinstance(x, SymbolicNumber) else function(x)

    return on_number


_ORIGINAL: dict[str, Callable[..., Any]] = {name: getattr(math, name) for name in (*_FUNCTIONS, *_TESTS)}
_RECORDED: dict[str, Callable[..., Any]] = {name: _recorded(_ORIGINAL[name]) for name in _FUNCTIONS}
_RECORDED |= {name: _recorded_test(_ORIGINAL[name]) for name in _TESTS}
