"""Fused multiply-add: ``a * b + c`` with one rounding, as the compiled kernels of PyTorch compute it."""

import math

import numpy as np

from fgrad.torch.random.scalars import FLOAT32, Array


def _two_sum(a: Array, b: Array | float) -> tuple[Array, Array]:
    """The sum of float64 numbers, and its rounding error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _two_product(a: Array, b: float) -> tuple[Array, Array]:
    """The product of float64 numbers, and its rounding error (Dekker, with Veltkamp's splitting)."""
    product = a * b
    splitter = 2.0**27 + 1.0
    a_high = a * splitter - (a * splitter - a)
    b_high = b * splitter - (b * splitter - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _sum_to_odd(a: Array, b: Array | float) -> Array:
    """The sum of float64 numbers, rounded to the neighbour with an odd last bit where it is inexact.

    Rounding such a sum once more, to fewer bits, gives what one rounding would have given.
    """
    total, error = _two_sum(a, b)
    bits = total.view(np.int64)
    even = ((error > 0) | (error < 0)) & ((bits & 1) == 0)
    outward = (error > 0) == (total > 0)
    return (bits + np.where(even, np.where(outward, 1, -1), 0)).view(np.float64)


@np.errstate(all="ignore")
def fma_single(a: Array, b: float, c: Array | float) -> Array:
    """``a * b + c`` of float32 numbers, rounded once; ``b`` and ``c`` are float32 numbers too."""
    if np.ndim(c) == 0 and c == 0.0:
        return a * np.float32(b) + np.float32(c)
    # the product of two numbers of 24 bits is exact in 53
    return _sum_to_odd(a.astype(np.float64) * b, c).astype(FLOAT32)


@np.errstate(all="ignore")
def fma_double(a: Array, b: float, c: Array | float) -> Array:
    """``a * b + c`` of float64 numbers, rounded once (Boldo and Melquiond, 2008); in a program as XLA rounds it."""
    if not isinstance(a, np.ndarray):
        return a * b + c  # XLA would fuse the steps below and change their errors
    largest = max(abs(b), np.max(np.abs(c), initial=0.0))
    if b == 1.0 or (np.ndim(c) == 0 and c == 0.0) or not math.isfinite(largest):
        return a * b + c
    # scaling by powers of two avoids overflow
    _, exponent = math.frexp(largest)
    b, c = math.ldexp(b, -exponent), np.ldexp(c, -exponent)
    high, low = _two_product(a, b)
    middle, bottom = _two_sum(low, c)
    top, carry = _two_sum(high, middle)
    return np.ldexp(top + _sum_to_odd(bottom, carry), exponent)
