"""Kinds of numbers, and checks of those that an operation takes."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.capture import expect
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, is_half
from fgrad.mutable.values.evaluation import elements
from fgrad.torch.random.scalars import not_implemented


def is_integer(x: Any) -> bool:
    """Whether an operand is an integer or a boolean, or a tensor of these."""
    return not x._type.inexact if isinstance(x, Tensor) else isinstance(x, int)


def is_complex(x: Any) -> bool:
    """Whether an operand is a complex number, or a tensor of these."""
    return x._type.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex)


def _is_bool(x: Any) -> bool:
    return x._type.dtype is bool_ if isinstance(x, Tensor) else isinstance(x, bool)


def check_divisor(dividend: Any, divisor: Any) -> None:
    """Raise PyTorch's error for a division of integers by zero, if the divisor's elements are known."""
    if not (is_integer(dividend) and is_integer(divisor)) or (_is_bool(dividend) and _is_bool(divisor)):
        return
    if isinstance(divisor, Tensor):
        known = elements(divisor._value())
        if known is None:
            expect(lambda: divisor != 0)
        if known is None or known.all():
            return
    elif divisor:
        return
    raise RuntimeError("ZeroDivisionError")


def check_kinds(kernel: str, kinds: str, *arrays: Any) -> None:
    """Raise PyTorch's error for an array of a kind that an operation does not take.

    Arguments:
      kernel: PyTorch's name of the kernel, for the error.
      kinds: the kinds it takes: "b" booleans, "i" integers, "f" floating point, "c" complex.
    """
    for x in arrays:
        if kind(x) not in kinds:
            raise not_implemented(kernel, x.dtype)


def check_floating(kernel: str, x: Any) -> None:
    """Raise PyTorch's error for all but real floating-point numbers."""
    check_kinds(kernel, "f", x)


def check_wide(kernel: str, x: Any) -> None:
    """Raise PyTorch's error for all but real floating-point numbers of 32 bits or more."""
    if x.dtype.itemsize < 4 or kind(x) != "f":
        raise not_implemented(kernel, x.dtype)


def single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of arrays compute 16-bit floating-point numbers in 32 bits, as PyTorch's kernels do.

    The first floating-point array decides whether that is done.
    """

    @functools.wraps(function)
    def computed(*arrays: Any, **named: Any) -> Any:
        given = (*arrays, *named.values())
        half = next((x.dtype for x in given if hasattr(x, "aval") and jnp.issubdtype(x.dtype, np.inexact)), None)
        if half is None or not is_half(half):
            return function(*arrays, **named)
        result = function(*map(widened, arrays), **{name: widened(x) for name, x in named.items()})
        if isinstance(result, tuple):
            return tuple([lax.convert_element_type(y, half) if y.dtype == np.float32 else y for y in result])
        return lax.convert_element_type(result, half)

    return computed


def _is_half_array(x: Any) -> bool:
    return hasattr(x, "aval") and is_half(x.dtype)


def widened(x: Any) -> Any:
    """A 16-bit floating-point array in 32 bits; anything else as it is."""
    return lax.convert_element_type(x, np.float32) if _is_half_array(x) else x


def check_factor(name: str, factor: Any, array: Any) -> None:
    """Raise PyTorch's errors for a factor that an array of booleans or integers cannot be multiplied by."""
    if kind(factor) == "b" and kind(array) != "b":
        raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    if kind(factor) in "fc" and kind(array) in "bi":
        raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")


def kind(x: Any) -> str:
    """The kind of an array's elements: "b", "i", "f" or "c"."""
    if x.dtype == np.bool_:
        return "b"
    if jnp.issubdtype(x.dtype, np.integer):
        return "i"
    return "c" if jnp.issubdtype(x.dtype, np.complexfloating) else "f"
