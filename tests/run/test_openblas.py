"""Factors and triangular systems: by NumPy's OpenBLAS and by SciPy's, which stands in where NumPy has another BLAS."""

import subprocess
import sys

import numpy as np
import pytest

from fgrad.run.kernels import openblas
from fgrad.run.kernels.openblas import LETTERS, cholesky, triangular_solve

N = 7


@pytest.fixture(params=["NumPy", "SciPy"], autouse=True)
def library(request, monkeypatch):
    if request.param == "SciPy":
        monkeypatch.setattr(openblas, "_of_numpy", lambda name: None)
    elif openblas._of_numpy("cblas_strsm") is None:
        pytest.skip("NumPy was built with another BLAS")
    return request.param


def matrix(dtype, *shape):
    x = np.random.default_rng(0).normal(size=(2, *shape))
    return (x[0] + 1j * x[1]).astype(dtype) if dtype.kind == "c" else x[0].astype(dtype)


def tolerance(dtype):
    return 1e-4 if dtype in (np.float32, np.complex64) else 1e-11


@pytest.mark.parametrize("dtype", LETTERS, ids=str)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [0, 1, 2])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(dtype, columns, left, lower, transposed, unit):
    whole = matrix(dtype, N, N) + N * np.eye(N, dtype=dtype)
    a = np.tril(whole) if lower else np.triu(whole)
    if unit:
        np.fill_diagonal(a, 1)
    b = matrix(dtype, N, columns) if left else matrix(dtype, columns, N)
    given = b.copy()
    solve = triangular_solve(dtype, left=left, lower=lower, transposed=transposed, unit=unit)
    turned = (a, a.T, a.conj().T)[transposed]
    for layout in (np.ascontiguousarray, np.asfortranarray):
        x = solve(layout(whole), layout(b))  # the other triangle, and a diagonal of ones, are not read
        assert x.dtype == dtype
        np.testing.assert_allclose(turned @ x if left else x @ turned, b, atol=100 * tolerance(dtype))
    assert np.array_equal(b, given)


@pytest.mark.parametrize("dtype", LETTERS, ids=str)
def test_factors(dtype):
    x = matrix(dtype, N, N)
    x = x @ x.conj().T + np.eye(N, dtype=dtype)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        given = layout(np.tril(x) + np.triu(np.full_like(x, np.nan), 1))  # what is above the diagonal is not read
        factor, ok = cholesky(dtype)(given)
        assert ok and factor.dtype == dtype
        factor = np.tril(factor)
        np.testing.assert_allclose(factor @ factor.conj().T, x, atol=10 * tolerance(dtype))
    assert not cholesky(dtype)(-x)[1]


def test_scipy_is_not_imported(library):
    program = """
import sys
import numpy as np
import fgrad.torch as torch
x = torch.eye(3, requires_grad=True)
factor = torch.linalg.cholesky(x)
torch.linalg.solve_triangular(factor, torch.ones(3, 1), upper=False).sum().backward()
print("scipy.linalg" in sys.modules)
"""
    if library == "NumPy":
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["False"]
