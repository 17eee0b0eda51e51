"""Fused multiply-add rounds once: compared with exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from fgrad.torch.random.fused import fma_double, fma_single


def _rounded(value: Fraction, dtype):
    """The nearest number of a type, ties to even: the nearest float64 moved by the exact remainder."""
    near = dtype(float(value))
    candidates = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    distances = [abs(Fraction(float(c)) - value) for c in candidates]
    best = min(distances)
    nearest = [c for c, distance in zip(candidates, distances, strict=True) if distance == best]
    return next((c for c in nearest if c.view(f"i{c.itemsize}") % 2 == 0), nearest[0])


@pytest.mark.parametrize(("fused", "dtype"), [(fma_single, np.float32), (fma_double, np.float64)])
@pytest.mark.parametrize("b", [1.0, 0.3, -7.1, 1e10, 1e-9, 3.0])
@pytest.mark.parametrize("c", [0.0, 1.0, -0.1, 1e12, 1e-12, 5.0])
def test_one_rounding(fused, dtype, b, c):
    a = np.random.default_rng(0).standard_normal(40).astype(dtype)
    b, c = float(dtype(b)), float(dtype(c))
    expected = [_rounded(Fraction(float(x)) * Fraction(b) + Fraction(c), dtype) for x in a]
    assert fused(a, b, c).tolist() == [float(x) for x in expected]


def test_rounding_twice_would_differ():
    # 2**-70 below the middle of two float32 numbers: float64 has only the middle itself, which goes to the even one
    a, b, c = np.array([(1 + 2.0**-23) * 2.0**-24], np.float32), 1 - 2.0**-23, 1 + 2.0**-23
    assert np.float32(float(a[0]) * b + c) == 1 + 2.0**-22
    assert fma_single(a, b, c).tolist() == [1 + 2.0**-23]


@pytest.mark.parametrize(("b", "c"), [(1e308, -9e307), (1.5e308, 1e292), (1e-300, 1e-301), (2.0, -np.inf)])
def test_large_and_small_doubles(b, c):
    a = np.linspace(0.1, 0.9, 17)
    finite = np.isfinite(c)
    expected = [float(Fraction(x) * Fraction(b) + Fraction(c)) if finite else c for x in a.tolist()]
    assert fma_double(a, b, c).tolist() == expected
