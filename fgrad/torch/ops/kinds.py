"""Kinds of numbers: which of them an operation takes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.torch.core.evaluation import concrete, is_abstract
from fgrad.torch.core.tensor import Tensor
from fgrad.torch.dtypes import bool_, from_numpy


def is_integer(x: Any) -> bool:
    """Whether an operand is an integer or a boolean, or a tensor of such."""
    return not x._type.inexact if isinstance(x, Tensor) else isinstance(x, int)


def _is_bool(x: Any) -> bool:
    return x._type.dtype is bool_ if isinstance(x, Tensor) else isinstance(x, bool)


def check_divisor(dividend: Any, divisor: Any) -> None:
    """Raise PyTorch's error for a division of integers by zero, where the divisor's elements are known."""
    if not (is_integer(dividend) and is_integer(divisor)) or (_is_bool(dividend) and _is_bool(divisor)):
        return
    if isinstance(divisor, Tensor):
        value = divisor._value()
        if is_abstract(value) or concrete(value).all():
            return
    elif divisor:
        return
    raise RuntimeError("ZeroDivisionError")


def check_kinds(kernel: str, kinds: str, *arrays: Any) -> None:
    """Raise PyTorch's error for an array of a kind that an operation does not take.

    Arguments:
      kernel: PyTorch's name of the work, as the error has it.
      kinds: the kinds it takes: "b" booleans, "i" integers, "f" floating point, "c" complex.
    """
    for x in arrays:
        if kind(x) not in kinds:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{from_numpy(x.dtype).scalar_name}'")


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a floating-point one of 16 bits."""
    return dtype.itemsize == 2 and from_numpy(dtype).is_floating_point


def rounded_once(compute: Callable[..., Any], *arrays: Any) -> Any:
    """What ``compute`` makes of arrays of one type; half precision is computed in single precision and then rounded."""
    dtype = arrays[0].dtype
    if not is_half(dtype):
        return compute(*arrays)
    return compute(*[lax.convert_element_type(x, np.float32) for x in arrays]).astype(dtype)


def kind(x: Any) -> str:
    """The kind of an array's elements: "b", "i", "f" or "c"."""
    if x.dtype == np.bool_:
        return "b"
    if jnp.issubdtype(x.dtype, np.integer):
        return "i"
    return "c" if jnp.issubdtype(x.dtype, np.complexfloating) else "f"
