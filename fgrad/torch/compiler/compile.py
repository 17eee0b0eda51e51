"""``torch.compile`` and ``torch.compiler``: PyTorch's compiler changes how fast a function runs, and no value.

An operation that is met often is compiled by XLA in any case, and so is a backward; a function is left as it is.
``fgrad.torch.functionalize`` makes one whole program of it.
"""

from collections.abc import Callable
from typing import Any


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """The same function or module; without one, a decorator.

    Arguments:
      model: a function or a module.
      fullgraph, dynamic, backend, mode, options, disable: accepted as in PyTorch.

    Raises:
      RuntimeError: both ``mode`` and ``options`` are given.
      TypeError: ``model`` cannot be called.

    >>> import fgrad.torch as torch
    >>> torch.compile(torch.sin)(torch.zeros(1))
    tensor([0.])

    Source: `torch.compile <https://docs.pytorch.org/docs/2.13/generated/torch.compile.html>`_.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return lambda model: compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend)
    if not callable(model):
        raise TypeError(f"torch.compile takes a function or a module, got {type(model).__name__}")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that is not to be compiled, which none is; without one, a decorator."""
    return (lambda fn: fn) if fn is None else fn


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return fn


def is_compiling() -> bool:
    """Whether PyTorch's compiler is at work: never."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether PyTorch's compiler is at work: never."""
    return False


def is_exporting() -> bool:
    """Whether a program is being exported: never."""
    return False


def reset() -> None:
    """Forget what PyTorch's compiler has compiled: nothing."""
