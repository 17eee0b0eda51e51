"""The elementary functions of the C library over float64 arrays.

PyTorch's scalar kernels call the C library.  So does NumPy, unless the processor has wide vectors: then it uses
functions of its own, which differ in the last bit.  A probe tells whether they agree here.  Traced values use XLA's
functions.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from fgrad.torch.random.scalars import Array

Function: TypeAlias = Callable[[Array], Array]

# the scalar function, and the range on which the distributions evaluate it
_DOMAINS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "log": (math.log, 0.0, 1.0),
    "log1p": (math.log1p, -1.0, 0.0),
    "exp": (math.exp, -6.0, 6.0),
    "sin": (math.sin, 0.0, 2 * math.pi),
    "cos": (math.cos, 0.0, 2 * math.pi),
    "tan": (math.tan, -math.pi / 2, math.pi / 2),
}


@cache
def _function(name: str) -> Function:
    scalar, low, high = _DOMAINS[name]
    vector: Any = getattr(np, name)

    def mapped(values: Array) -> Array:
        return np.fromiter(map(scalar, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)

    # irregularly spread points, excluding the ends of the range
    points = low + (high - low) * (np.arange(1.0, 8193.0) * math.sqrt(2.0) % 1.0)
    if np.array_equal(vector(points), mapped(points)):
        return vector
    return mapped


def _applied(name: str, values: Array) -> Array:
    """The C library's function of the values, or XLA's of traced ones."""
    return _function(name)(values) if isinstance(values, np.ndarray) else getattr(np, name)(values)


def log(values: Array) -> Array:
    """The natural logarithm of positive numbers, and minus infinity for zero."""
    if not isinstance(values, np.ndarray):
        return np.log(values)
    zero = values == 0.0
    if zero.any():
        return np.where(zero, -np.inf, _function("log")(np.where(zero, 1.0, values)))
    return _function("log")(values)


def log1p(values: Array) -> Array:
    """``log(1 + x)`` of numbers above -1."""
    return _applied("log1p", values)


def exp(values: Array) -> Array:
    """The exponential; infinity where it overflows."""
    if not isinstance(values, np.ndarray):
        return np.exp(values)
    overflow = values > 709.78
    if overflow.any():
        with np.errstate(over="ignore"):
            return np.where(overflow, np.exp(values), _function("exp")(np.where(overflow, 0.0, values)))
    return _function("exp")(values)


def sin(values: Array) -> Array:
    """The sine."""
    return _applied("sin", values)


def cos(values: Array) -> Array:
    """The cosine."""
    return _applied("cos", values)


def tan(values: Array) -> Array:
    """The tangent."""
    return _applied("tan", values)


def scalar_log(value: float) -> float:
    """The logarithm of one number; minus infinity for zero."""
    return math.log(value) if value else -math.inf


def scalar_floor(value: float) -> float:
    """The integer below one number; infinities and NaN stay."""
    return float(math.floor(value)) if math.isfinite(value) else value


def scalar_power(base: float, exponent: float) -> float:
    """A power of one positive number; infinity where it overflows."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def powers(base: float, exponents: Array) -> Array:
    """One number to each of several powers; to what the C library refuses, NumPy's answer."""
    if not base > 0:
        return np.power(base, exponents)
    return np.fromiter((scalar_power(base, x) for x in exponents.tolist()), np.float64, exponents.size)
