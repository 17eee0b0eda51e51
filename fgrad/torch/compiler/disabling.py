"""``torch.compiler.disable`` and its kin: what ``torch.compile`` is told about functions.

A disabled function that a compiled one calls is executed by Python at each call, with all that it does: the piece so
far ends before it (NOTE [Pieces]).
"""

import functools
from collections.abc import Callable
from typing import Any

from fgrad.torch.compiler.module import OptimizedModule
from fgrad.torch.compiler.originals import original_of
from fgrad.torch.compiler.running import leave_graph, running
from fgrad.torch.nn.modules.module import Module

DISABLED = (
    "torch.compiler.disable()d function {name} is called{reason}; Python executes it at each call, so no graph holds "
    "it. The ways out: call it before or after the compiled function, or use torch.compile without fullgraph=True, "
    "which runs such a call in pieces"
)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that ``torch.compile`` leaves alone; without one, a decorator.

    Called by a compiled function, it is executed by Python at each call.  Of a module a wrapper is returned; of a
    class, whose ``__call__`` is disabled, the class.

    Arguments:
      recursive: accepted as in PyTorch; what the function calls is not captured on its own either way.
      reason: is part of the message where the function cannot be captured.

    Raises:
      AssertionError: ``fn`` cannot be called.

    >>> import fgrad.torch as torch
    >>> @torch.compiler.disable
    ... def note(x):
    ...     print("a call")
    >>> @torch.compile
    ... def double(x):
    ...     note(x)
    ...     return x * 2
    >>> for _ in range(3):
    ...     x = double(torch.ones(1))
    a call
    a call
    a call

    Source: `torch.compiler.disable <https://docs.pytorch.org/docs/2.13/generated/torch.compiler.disable.html>`_.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    fn = original_of(fn)
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if isinstance(fn, Module):
        return OptimizedModule(fn, _disabled(fn.__call__, reason))
    if isinstance(fn, type):
        fn.__call__ = _disabled(fn.__call__, reason)  # type: ignore[method-assign]
        return fn
    return _disabled(fn, reason)


def _disabled(fn: Callable[..., Any], reason: str | None) -> Callable[..., Any]:
    name = getattr(fn, "__qualname__", type(fn).__name__)
    message = DISABLED.format(name=name, reason="" if reason is None else f" ({reason})")

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not running.inside:
            return fn(*args, **kwargs)
        leave_graph(message)
        running.inside = False
        try:
            return fn(*args, **kwargs)
        finally:
            running.inside = True

    call._fgrad_uncompiled = True  # type: ignore[attr-defined]
    return call


def allow_in_graph(fn: Any) -> Any:
    """The function as it is, or a list of several: captures record what they do.

    Raises:
      AssertionError: it cannot be called.
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(x) for x in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return fn


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """The function as it is; without one, a decorator."""
    return (lambda fn: fn) if fn is None else fn


def substitute_in_graph(original_fn: Any, **options: bool) -> Callable[[Any], Any]:
    """A decorator whose function calls the original one, as PyTorch's does uncompiled: captures record that as it runs.

    Raises:
      TypeError: the original is no function.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        return call

    return decorate
