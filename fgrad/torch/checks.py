"""Checks that raise: ``torch._check`` and its kin, and ``torch._assert``."""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor

Message = Callable[[], Any] | None

_UNSAID = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of a type, with what ``message()`` says, unless the condition is true.

    >>> import fgrad.torch as torch
    >>> torch._check_with(KeyError, False, lambda: "nothing there")
    Traceback (most recent call last):
    KeyError: 'nothing there'
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
            "that all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_said(message))


def _said(message: Message) -> str:
    if message is None:
        return _UNSAID
    if not callable(message):
        raise TypeError("message must be a callable")
    return str(message())


def _raising(name: str, error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: Any, message: Message = None) -> None:
        _check_with(error_type, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise ``{error_type.__name__}`` unless the condition is true."
    return check


_check = _raising("_check", RuntimeError)
_check_index = _raising("_check_index", IndexError)
_check_not_implemented = _raising("_check_not_implemented", NotImplementedError)
_check_type = _raising("_check_type", TypeError)
_check_value = _raising("_check_value", ValueError)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise unless a number can be the size of an axis."""
    _check(i >= 0, message)
    _check(max is None or i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of a type unless all elements of a tensor of bools are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise unless all elements of a tensor of bools are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: str) -> None:
    """``assert`` as a function."""
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Tensor, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise unless the only element of a tensor is true."""
    if not condition:
        raise RuntimeError(message)
