"""The C library's functions, from NumPy where it has them and from Python's math where it has its own."""

import math

import numpy as np
import pytest

from fgrad.torch.random import libm

NAMES = ["log", "log1p", "exp", "sin", "cos", "tan"]


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    points = np.linspace(-0.9, 3.0, 1001)
    points = np.abs(points) if name == "log" else points
    assert getattr(libm, name)(points).tolist() == [getattr(math, name)(x) for x in points.tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_a_numpy_of_its_own_is_not_used(name, monkeypatch):
    theirs = getattr(np, name)
    monkeypatch.setattr(np, name, lambda values: np.nextafter(theirs(values), np.inf))
    function = libm._function.__wrapped__(name)
    points = np.linspace(0.1, 0.9, 12).reshape(3, 4)
    assert function(points).tolist() == [[getattr(math, name)(x) for x in row] for row in points.tolist()]


def test_ends():
    assert libm.log(np.array([0.0, 1.0])).tolist() == [-np.inf, 0.0]
    assert libm.exp(np.array([-np.inf, 0.0, 800.0])).tolist() == [0.0, 1.0, np.inf]
    assert (libm.scalar_log(0.0), libm.scalar_log(1.0)) == (-math.inf, 0.0)
    assert (libm.scalar_floor(-1.5), libm.scalar_floor(math.inf)) == (-2.0, math.inf)
    assert (libm.scalar_power(0.5, 2.0), libm.scalar_power(0.5, -1e9)) == (0.25, math.inf)
