"""``torch.jit``: what code asks that may be scripted or traced elsewhere; nothing is scripted or traced here."""

from collections.abc import Callable
from typing import Any, Final as Final, NoReturn, TypeVar

T = TypeVar("T")


def is_scripting() -> bool:
    """Whether TorchScript runs this code: never."""
    return False


def is_tracing() -> bool:
    """Whether a call is being traced for TorchScript: never."""
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function that TorchScript leaves to Python; a decorator, with or without arguments."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: T) -> T:
    """Mark a function that TorchScript replaces by an error."""
    return fn


def export(fn: T) -> T:
    """Mark a method that TorchScript compiles besides ``forward``."""
    return fn


def script_if_tracing(fn: T) -> T:
    """A function that would be scripted while one is traced, which none is."""
    return fn


def annotate(the_type: Any, the_value: T) -> T:
    """A value of which TorchScript is told the type."""
    return the_value


def script(obj: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: there is no TorchScript.

    Raises:
      NotImplementedError: always; it says what to use instead.
    """
    raise _refused("script")


def trace(func: Callable[..., Any], *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: there is no TorchScript.

    Raises:
      NotImplementedError: always; it says what to use instead.
    """
    raise _refused("trace")


def _refused(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch.jit.{what}: there is no TorchScript in fgrad. Call the function as it is, or make one program of it "
        "with jax.jit(fgrad.torch.functionalize(f))."
    )
