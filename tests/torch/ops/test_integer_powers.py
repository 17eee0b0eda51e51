"""Integers to large powers, which wrap around as PyTorch's do."""

import numpy as np
import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")

BASES, EXPONENTS = (-3, -2, -1, 0, 1, 2, 3, 7), (-2, -1, 0, 1, 2, 3, 7, 31, 63, 64, 65, 100, 127)


def _grids(torch, dtype, names):
    dtype = getattr(torch, dtype)
    exponents = [e for e in EXPONENTS if "u" not in names or e >= 0]
    bases = [b for b in BASES if "u" not in names or b >= 0]
    return torch.tensor(bases, dtype=dtype)[:, None], torch.tensor(exponents, dtype=dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_powers_of_tensors(dtype):
    expected, actual = [x**y for torch in (theirs, ours) for x, y in [_grids(torch, dtype, dtype[0])]]
    np.testing.assert_array_equal(actual.numpy(), expected.numpy())


@pytest.mark.parametrize("exponent", [0, 1, 2, 64, 100, 2**40 + 1])
def test_powers_by_a_number(exponent):
    expected, actual = [torch.tensor(BASES) ** exponent for torch in (theirs, ours)]
    np.testing.assert_array_equal(actual.numpy(), expected.numpy())


def test_powers_of_a_number():
    expected, actual = [3 ** torch.tensor([0, 1, 64, 100]) for torch in (theirs, ours)]
    np.testing.assert_array_equal(actual.numpy(), expected.numpy())
