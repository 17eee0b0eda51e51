"""The entrance of functions and methods that no table lists: errors are explained on their way to the user's code.

See NOTE [Errors of calls] in ``fgrad/mutable/explain/calls.py``.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from fgrad.mutable.ports import AT_OUTERMOST

Function = TypeVar("Function", bound=Callable[..., Any])


def entrance(function: Function) -> Function:
    """A function or method that users call, and their subclasses: its errors are explained."""

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            AT_OUTERMOST.call(error, ())
            raise

    return public  # type: ignore[return-value]
