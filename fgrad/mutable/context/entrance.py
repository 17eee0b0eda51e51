"""The wrapper of public functions and methods that no table lists: errors that leave through it are explained.

See NOTE [Errors of calls] in ``fgrad/mutable/explain/calls.py``.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from fgrad.mutable.ports import AT_OUTERMOST

Function = TypeVar("Function", bound=Callable[..., Any])


def entrance(function: Function) -> Function:
    """Wrap a function or method that users and their subclasses call, so that its errors are explained."""

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            AT_OUTERMOST.call(error, ())
            raise

    return public  # type: ignore[return-value]
