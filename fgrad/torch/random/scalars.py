"""The element types of random arrays: their names in PyTorch's messages, their limits, their conversions."""

from functools import cache
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from fgrad.mutable.types import dtypes

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Shape: TypeAlias = tuple[int, ...]

BOOL = np.dtype(np.bool_)
FLOAT16 = np.dtype(np.float16)
BFLOAT16 = np.dtype(jnp.bfloat16)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
INT64 = np.dtype(np.int64)

FLOATING = frozenset({FLOAT16, BFLOAT16, FLOAT32, FLOAT64})
COMPLEX_PARTS = {np.dtype(np.complex64): FLOAT32, np.dtype(np.complex128): FLOAT64}
SIGNED_AND_BYTE = frozenset(np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64, np.uint8))
INTEGRAL = SIGNED_AND_BYTE | {np.dtype(t) for t in (np.uint16, np.uint32, np.uint64)}

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

# the C++ types, which some messages show
_CPP_NAMES = {
    BOOL: "bool",
    np.dtype(np.uint8): "unsigned char",
    np.dtype(np.int8): "signed char",
    np.dtype(np.int16): "short int",
    np.dtype(np.int32): "int",
    INT64: "long int",
    np.dtype(np.uint16): "short unsigned int",
    np.dtype(np.uint32): "unsigned int",
    np.dtype(np.uint64): "long unsigned int",
    FLOAT16: "c10::Half",
    BFLOAT16: "c10::BFloat16",
    FLOAT32: "float",
    FLOAT64: "double",
    np.dtype(np.complex64): "c10::complex<float>",
    np.dtype(np.complex128): "c10::complex<double>",
}


def scalar_name(dtype: np.dtype[Any]) -> str:
    """The name of a type in PyTorch (``Float``)."""
    return dtypes.from_numpy(dtype).scalar_name


def cpp_name(dtype: np.dtype[Any]) -> str:
    """The name of a type in C++ (``float``)."""
    return _CPP_NAMES[dtype]


def not_implemented(kernel: str, dtype: np.dtype[Any]) -> NotImplementedError:
    """The error of a kernel that has no version for a type."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'")


@cache
def digits(dtype: np.dtype[Any]) -> int:
    """The number of bits in the significand of a floating-point type, including the hidden one."""
    return int(jnp.finfo(dtype).nmant) + 1


@cache
def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The lowest and the highest finite number of a floating-point type."""
    information = jnp.finfo(dtype)
    return float(information.min), float(information.max)


def rounded(values: Array, dtype: np.dtype[Any]) -> Array:
    """Real numbers in a floating-point type; to the 16-bit types through float32, as in C++."""
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):
        if dtype.itemsize == 2:
            values = values.astype(FLOAT32, copy=False)
        return values.astype(dtype, copy=False)


def truncated(values: Array, dtype: np.dtype[Any]) -> Array:
    """float64 numbers converted to an integer type as on x86: values out of range become the lowest integer.

    Types narrower than 32 bits truncate a 32-bit result.
    """
    wide = INT64 if dtype.itemsize == 8 else np.dtype(np.int32)
    bounds = np.iinfo(wide)
    # -min is the first float64 above the range; max itself need not be a float64
    inside = (values >= float(bounds.min)) & (values < -float(bounds.min))
    return np.where(inside, values, float(bounds.min)).astype(wide).astype(dtype)
