"""Tracebacks that show the user's code: fgrad's and JAX's own frames are left out where JAX leaves out its own.

The setting is JAX's: ``jax.config.jax_traceback_filtering`` (or the environment variable
``JAX_TRACEBACK_FILTERING``) with the value ``off`` shows everything.
"""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import jax

from fgrad.graph.source import is_hidden

Function = TypeVar("Function", bound=Callable[..., Any])


def boundary(function: Function) -> Function:
    """``function`` with hidden frames taken out of the traceback of what it raises.

    >>> @boundary
    ... def f():
    ...     raise ValueError("shown as it is")
    >>> f()
    Traceback (most recent call last):
    ValueError: shown as it is
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return call  # type: ignore[return-value]


def hide_frames(error: Exception) -> None:
    """Take hidden frames out of the traceback of an error, as far as it has come."""
    if jax.config.jax_traceback_filtering != "off":  # type: ignore[attr-defined]
        error.__traceback__ = _visible(error.__traceback__)


def _visible(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without hidden frames; all of it where every frame is hidden."""
    entries = []
    while traceback is not None:
        if not is_hidden(traceback.tb_frame.f_code):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept
