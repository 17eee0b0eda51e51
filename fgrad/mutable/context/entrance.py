"""The port of the entrances: what adds to an error that passes one on its way to the user's code.

See NOTE [Errors of calls] in ``fgrad/mutable/explain/calls.py``.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _Explanation:
    """What adds to errors and warnings; ``fgrad.mutable.explain.calls`` enters it when it is defined."""

    #: of an error that passes an entrance, from it, the arguments and the module, if the entrance is one
    passing: Any = staticmethod(lambda error, args, module=None: None)
    #: of an error at the last entrance that it passes, though the user's code be further up
    last: Any = staticmethod(lambda error, args: None)
    #: from the text of a warning to a longer one
    warning: Any = staticmethod(lambda text: text)


explanation: _Explanation = _Explanation()


def entrance(function: Function) -> Function:
    """A function or method that users call, and their subclasses: its errors are explained."""

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            explanation.last(error, ())
            raise

    return public  # type: ignore[return-value]
