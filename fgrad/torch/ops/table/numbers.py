"""Python numbers that become elements of a tensor."""

from functools import cache
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.operation.operands import check_64_bits
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype, float32, is_half

#: the C++ types in PyTorch's error
CPP_NAMES = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


#: every floating-point type holds the numbers of these classes up to this one
_HELD, _REAL = 65504.0, frozenset((int, float))


def is_one(factor: Any) -> bool:
    """Whether a factor is the default, the integer 1."""
    return factor.__class__ is int and factor == 1


def plain_number(value: Any) -> Any:
    """A NumPy scalar as a Python number; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def check_number(value: Any, dtype: Dtype) -> None:
    """Raise PyTorch's error for a number that an element type cannot hold even rounded."""
    if value.__class__ in _REAL and -_HELD <= value <= _HELD and dtype.is_floating_point:
        return
    if value.__class__ is int:
        if 0 <= value < 128:  # every type holds these
            return
        check_64_bits(value)
    if dtype.numpy == np.bool_ or not _overflows(value, dtype):
        return
    raise RuntimeError(f"value cannot be converted to type {CPP_NAMES[dtype.numpy.name]} without overflow")


def check_fits(value: Any, *operands: Any) -> None:
    """Raise PyTorch's error for a number that the common type of an operation's operands cannot hold.

    Tensors of several types, and a float beside integers, are not looked into.
    """
    if value.__class__ is int and 0 <= value < 128:
        return
    dtypes = {x._type.dtype for x in operands if isinstance(x, Tensor)}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        if dtype.is_floating_point or dtype.is_complex or not any(isinstance(x, float) for x in (value, *operands)):
            check_number(value, dtype)


def check_computed(value: Any, *operands: Any) -> None:
    """The same for an operation that computes 16-bit floats, and the number beside them, in 32 bits."""
    dtypes = {x._type.dtype for x in operands if isinstance(x, Tensor)}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        check_number(value, float32 if is_half(dtype.numpy) else dtype)


def check_settings(input: Any, *numbers: Any) -> None:
    """The same for the settings of an operation of floating-point numbers, which computes those of 16 bits in 32.

    Operands of other types are refused by the operation.
    """
    for number in numbers:
        if number.__class__ in _REAL and -_HELD <= number <= _HELD:
            continue
        if isinstance(input, Tensor) and input._type.dtype.is_floating_point and not isinstance(number, Tensor):
            check_computed(number, input)


@cache
def _greatest(dtype: Dtype) -> float:
    return float(jnp.finfo(dtype.numpy).max)


def _overflows(value: Any, dtype: Dtype) -> bool:
    if dtype.is_complex:
        value = complex(value)
        return any(abs(part) != float("inf") and abs(part) > _greatest(dtype) for part in (value.real, value.imag))
    if isinstance(value, complex):
        return bool(value.imag) or _overflows(value.real, dtype)
    if isinstance(value, bool):
        return False
    if dtype.is_floating_point:
        if isinstance(value, int) and value >= 1 << 63:
            return False  # PyTorch does not check unsigned integers
        return abs(value) != float("inf") and abs(value) > _greatest(dtype)
    bounds = np.iinfo(dtype.numpy)
    # a negative integer may be given for the unsigned one with the same bits
    least = -int(bounds.max) if not bounds.min and isinstance(value, int) else bounds.min
    return not least <= value <= bounds.max
