"""Whether a call is being recorded, or runs in pieces, for ``torch.compile`` on this thread."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from fgrad.mutable.context.modes import modes

P = ParamSpec("P")
R = TypeVar("R")


class Running(threading.local):
    """The state of one thread."""

    inside: bool = False


running: Running = Running()


def recording(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator of a function that records or runs in pieces."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        before = running.inside
        try:
            running.inside = True
            return function(*args, **kwargs)
        finally:
            running.inside = before

    return call


def leave_graph(reason: str) -> None:
    """End the graph of a compiled call before something that Python has to execute at each call.

    Raises:
      CaptureError: it has to be one graph.
    """
    if running.inside and modes.capturing is not None:
        modes.capturing.leave_graph(reason)


def is_compiling() -> bool:
    """Whether a function is being captured for ``torch.compile`` on this thread."""
    return running.inside


def is_dynamo_compiling() -> bool:
    """As ``is_compiling``."""
    return running.inside


def is_exporting() -> bool:
    """Whether a program is being exported: never."""
    return False
