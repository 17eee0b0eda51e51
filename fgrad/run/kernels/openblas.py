"""Factors and triangular systems by the OpenBLAS of NumPy, where it can be called, and else by that of SciPy.

``scipy.linalg`` takes a third of a second to import, which would be most of the first step of a Gaussian process.
NumPy has the same library, but no function for triangular systems, and one for factors that takes twice the time.  So
the library's own functions are called, by a kernel that has NumPy's BLAS on one thread.

Source: `CBLAS <https://www.netlib.org/blas/blast-forum/cinterface.pdf>`_, `LAPACK's potrf
<https://www.netlib.org/lapack/explore-html/d2/d09/group__potrf.html>`_.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import scipy

from fgrad.run.kernels.blas_threads import on_one_thread

LETTERS = {np.dtype(name): letter for name, letter in zip(("f4", "f8", "c8", "c16"), "sdcz", strict=True)}
#: as CBLAS numbers them
_ROW_MAJOR, _UPPER, _LOWER, _LEFT, _RIGHT = 101, 121, 122, 141, 142
_TRANSPOSED, _DIAGONAL = (111, 112, 113), (131, 132)

_Integer = type[ctypes.c_int64] | type[ctypes.c_int32]


def of_scipy(name: str, dtype: np.dtype) -> Callable[..., Any]:
    """SciPy's LAPACK or BLAS routine for a dtype; SciPy has a BLAS of its own, which has one thread meanwhile."""
    library = scipy.linalg.blas if name == "trsm" else scipy.linalg.lapack
    return on_one_thread(getattr(library, LETTERS[dtype] + name), scipy.linalg.blas._fblas)


def cholesky(dtype: np.dtype) -> Callable[[np.ndarray], tuple[np.ndarray, bool]]:
    """A function that factors a matrix, and says whether there is a factor; what is above the diagonal is arbitrary."""
    found = _of_numpy(f"{LETTERS[dtype]}potrf_")
    if found is None:
        potrf = of_scipy("potrf", dtype)

        def of_matrix(x: np.ndarray) -> tuple[np.ndarray, bool]:
            factor, info = potrf(x, lower=1, clean=0)
            return factor, info == 0

        return of_matrix
    function, integer = found
    function.argtypes = [ctypes.c_char_p] + [ctypes.c_void_p] * 4

    def factored(x: np.ndarray) -> tuple[np.ndarray, bool]:
        factor, size, info = np.array(x, order="C"), integer(len(x)), integer()
        at = ctypes.addressof(size)
        # LAPACK reads columns where NumPy has rows, so what is below the diagonal for us is above it for LAPACK
        function(b"U", at, factor.ctypes.data, at, ctypes.addressof(info))
        return factor, not info.value

    return factored


def triangular_solve(
    dtype: np.dtype, *, left: bool, lower: bool, transposed: int, unit: bool
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function of ``a`` and ``b`` that solves ``a x = b``, or ``x a = b``.

    ``transposed`` is 1 if ``a`` stands for its transpose, and 2 for its conjugate transpose.
    """
    found = _of_numpy(f"cblas_{LETTERS[dtype]}trsm")
    if found is None:
        options = {"side": int(not left), "lower": int(lower), "trans_a": transposed, "diag": int(unit)}
        return partial(of_scipy("trsm", dtype), 1.0, **options)
    function, integer = found
    how = (_ROW_MAJOR, _LEFT if left else _RIGHT, _LOWER if lower else _UPPER, _TRANSPOSED[transposed], _DIAGONAL[unit])
    # CBLAS takes a complex number by its address
    part = ctypes.c_float if dtype.itemsize == 4 or dtype == np.complex64 else ctypes.c_double
    scalar, one = (ctypes.c_void_p, (part * 2)(1)) if dtype.kind == "c" else (part, 1.0)
    function.argtypes = [ctypes.c_int] * 5 + [integer] * 2 + [scalar, *[ctypes.c_void_p, integer] * 2]

    def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, x = np.ascontiguousarray(a), np.array(b, order="C")
        rows, columns = x.shape
        function(*how, rows, columns, one, a.ctypes.data, len(a), x.ctypes.data, columns)
        return x

    return solve


@cache
def _of_numpy(name: str) -> tuple[Any, _Integer] | None:
    """A function of NumPy's OpenBLAS and its type of integers; None for another BLAS."""
    path = getattr(getattr(np.linalg, "_umath_linalg", None), "__file__", None)
    if path is None:
        return None
    library = ctypes.CDLL(path)
    names: Sequence[tuple[str, str, _Integer]] = [
        ("scipy_", "64_", ctypes.c_int64),
        ("scipy_", "", ctypes.c_int32),
        ("", "64_", ctypes.c_int64),
    ]
    for prefix, suffix, integer in names:
        function = getattr(library, prefix + name + suffix, None)
        if function is not None:
            function.restype = None
            return function, integer
    return None
