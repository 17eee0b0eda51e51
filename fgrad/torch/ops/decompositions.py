"""Factorisations of matrices."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.torch import dtypes, return_types
from fgrad.torch.core.operation import apply
from fgrad.torch.core.tensor import Tensor
from fgrad.torch.ops.matrices import (
    adjoint,
    check_inexact,
    check_lapack,
    check_matrix,
    check_square,
    columns,
    conjugate,
    first_failure,
    linalg,
    matrix_columns,
    transposed,
)
from fgrad.torch.ops.overloads import overload
from fgrad.torch.ops.solving import triangular, zero_pivot
from fgrad.torch.ops.table import Array, Fixed, composite
from fgrad.torch.ops.views import transpose

_HIGHEST = lax.Precision.HIGHEST


def _times(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=_HIGHEST)


# -- QR --------------------------------------------------------------------------------------------------------------


@overload("linalg_qr", "LinalgQrBackward0", saved=("A",), outputs=("Q", "R"), kept=("Q", "R"), strides=columns)
def _linalg_qr(input: Array, mode: str) -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    check_matrix("linalg.qr", input)
    check_inexact("linalg.qr", input, half=True)
    check_lapack("geqrf_cpu", input)
    if mode == "r":
        # the derivative needs Q, which this mode does not compute
        return jnp.zeros((0,), input.dtype), jnp.linalg.qr(input, "r")
    q, r = jnp.linalg.qr(input, "complete" if mode == "complete" else "reduced")
    return q, r


@linalg(name="qr")
def linalg_qr(A: Array, mode: str = "reduced") -> Any:
    """An orthonormal matrix and an upper triangular one whose product is the matrix.

    Source: `torch.linalg.qr <https://docs.pytorch.org/docs/stable/generated/torch.linalg.qr.html>`_.
    """
    return return_types.linalg_qr(apply(_linalg_qr.operation, (A,), (mode,)))


_QR = (
    "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
    "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\n"
    "should be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
)


@composite()
def qr(input: Array, some: bool = True) -> Any:
    """``linalg.qr``; ``some=False`` gives the complete factors.

    Source: `torch.qr <https://docs.pytorch.org/docs/stable/generated/torch.qr.html>`_.
    """
    warnings.warn(_QR, UserWarning, stacklevel=3)
    return return_types.qr(linalg_qr(input, "reduced" if some else "complete"))


# -- singular values -------------------------------------------------------------------------------------------------


def _quotient(x: Any, gaps: Any) -> Any:
    """``x / gaps``; zero where both are zero, as of equal values whose vectors have no gradient."""
    nothing = (x == 0) & (gaps == 0)
    return jnp.where(nothing, 0, x / jnp.where(nothing, 1, gaps))


def _with_pullback(forward: Callable[[Any], Any], pullback: Callable[..., Any]) -> Callable[[Any], Any]:
    """A function with this pull-back, and its own derivative in forward mode: what divides so has no transpose."""

    def pushforward(tangents: Any, outs: Any, x: Any) -> Any:
        return fgrad.jvp(forward, (x,), tangents)[1]

    return fgrad.define_rule(forward, vjp=pullback, jvp=pushforward)


def _singular(x: Any, full_matrices: bool) -> Any:
    """The decomposition; of the gradients of additional singular vectors, which are arbitrary, nothing is read."""
    rows, width = x.shape[-2:]
    least = min(rows, width)

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        gu, gs, gvh = (conjugate(ct) for ct in cts)
        u, s, vh = outs
        u, gu, vh, gvh = u[..., :least], gu[..., :least], vh[..., :least, :], gvh[..., :least, :]
        row, column = s[..., None, :].astype(x.dtype), s[..., :, None].astype(x.dtype)
        eye = jnp.eye(least, dtype=bool)
        gaps = jnp.where(eye, 1, row * row - column * column)
        left, right = _times(adjoint(u), gu), _times(gvh, adjoint(vh))
        left, right = left - adjoint(left), adjoint(right) - right
        core = _quotient(left, gaps) * row + column * _quotient(right, gaps) + jnp.where(eye, gs[..., None, :], 0)
        if x.dtype.kind == "c":
            core = core + jnp.where(eye, _quotient(left, 2 * row), 0)
        if rows > least:
            outer = _quotient(gu, row)
            found = _times(_times(u, core) + outer - _times(u, _times(adjoint(u), outer)), vh)
        else:
            inner = _times(core, vh)
            if width > least:
                outer = _quotient(gvh, column)
                inner = inner + outer - _times(_times(outer, adjoint(vh)), vh)
            found = _times(u, inner)
        return (conjugate(found),)

    return _with_pullback(lambda x: tuple(jnp.linalg.svd(x, full_matrices=full_matrices)), pullback)(x)


@overload(
    "linalg_svd", "LinalgSvdBackward0", saved=("A",), outputs=("U", "S", "Vh"), kept=("U", "S", "Vh"),
    strides=matrix_columns,
)  # fmt: skip
def _linalg_svd(input: Array, full_matrices: bool) -> Any:
    check_matrix("linalg.svd", input)
    check_inexact("linalg.svd", input, half=True)
    check_lapack("linalg_svd_cpu", input)
    return _singular(input, full_matrices)


@linalg(name="svd")
def linalg_svd(A: Array, full_matrices: bool = True, *, driver: Any = None) -> Any:
    """The singular value decomposition ``U diag(S) Vh``.

    Source: `torch.linalg.svd <https://docs.pytorch.org/docs/stable/generated/torch.linalg.svd.html>`_.
    """
    return return_types.linalg_svd(apply(_linalg_svd.operation, (A,), (full_matrices,)))


@linalg()
def svdvals(A: Array, *, driver: Any = None) -> Tensor:
    """The singular values, greatest first.

    Source: `torch.linalg.svdvals <https://docs.pytorch.org/docs/stable/generated/torch.linalg.svdvals.html>`_.
    """
    return linalg_svd(A, False).S


@composite()
def svd(input: Array, some: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition with ``V`` in place of ``Vh``.

    Source: `torch.svd <https://docs.pytorch.org/docs/stable/generated/torch.svd.html>`_.
    """
    u, s, vh = linalg_svd(input, not some)
    v = transpose(vh, -2, -1)
    if not compute_uv:
        rows, width = input._type.shape[-2:]
        batch = input._type.shape[:-2]
        return return_types.svd((input.new_zeros((*batch, rows, rows)), s, input.new_zeros((*batch, width, width))))
    return return_types.svd((u, s, v.conj() if input._type.dtype.is_complex else v))


# -- eigenvalues -----------------------------------------------------------------------------------------------------


@overload(
    "linalg_eig", "LinalgEigBackward0", outputs=("eigenvalues", "eigenvectors"), strides=matrix_columns,
    kept=("eigenvalues", "eigenvectors"),
)  # fmt: skip
def _linalg_eig(input: Array) -> Any:
    check_square("linalg.eig", input)
    check_inexact("linalg.eig", input, half=True)
    check_lapack("linalg_eig_out_cpu", input)
    if not input.size:
        nothing = input.astype(np.result_type(input.dtype, np.complex64))
        return jnp.zeros(input.shape[:-1], nothing.dtype), nothing

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        gw, gv = (conjugate(ct) for ct in cts)
        w, v = outs
        left = adjoint(v)
        turned = _times(left, gv)
        # the vectors are of length one
        turned = turned - _times(left, v) * lax.real(jnp.diagonal(turned, axis1=-2, axis2=-1))[..., None, :]
        eye = jnp.eye(x.shape[-1], dtype=bool)
        gaps = jnp.where(eye, 1, conjugate(w[..., None, :] - w[..., :, None]))
        core = jnp.where(eye, gw[..., None, :], _quotient(turned, gaps))
        found = conjugate(jnp.linalg.solve(left, _times(core, left)))
        return (found if x.dtype.kind == "c" else lax.real(found),)

    def forward(x: Any) -> Any:
        return tuple(lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True))

    return _with_pullback(forward, pullback)(input)


@linalg()
def eig(A: Array) -> Any:
    """The eigenvalues and eigenvectors of square matrices, complex in any case.

    Source: `torch.linalg.eig <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eig.html>`_.
    """
    return return_types.linalg_eig(apply(_linalg_eig.operation, (A,)))


@linalg()
def eigvals(A: Array) -> Tensor:
    """The eigenvalues of square matrices.

    Source: `torch.linalg.eigvals <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigvals.html>`_.
    """
    return eig(A).eigenvalues


@overload(
    "linalg_eigh", "LinalgEighBackward0", outputs=("eigenvalues", "eigenvectors"), strides=matrix_columns,
    kept=("eigenvalues", "eigenvectors"),
)  # fmt: skip
def _linalg_eigh(input: Array, UPLO: str) -> Any:
    check_square("linalg.eigh", input)
    check_lapack("linalg_eigh_cpu", input)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        gw, gv = (conjugate(ct) for ct in cts)
        w, v = outs
        turned = _times(adjoint(v), gv)
        # the gradient is Hermitian as the matrix is
        turned = (turned - adjoint(turned)) / 2
        eye = jnp.eye(x.shape[-1], dtype=bool)
        gaps = jnp.where(eye, 1, w[..., None, :] - w[..., :, None]).astype(x.dtype)
        core = jnp.where(eye, gw[..., None, :], _quotient(turned, gaps))
        return (conjugate(_times(_times(v, core), adjoint(v))),)

    def forward(x: Any) -> Any:
        vectors, values = lax.linalg.eigh(x, lower=UPLO.upper() == "L", symmetrize_input=False)
        return values, vectors

    return _with_pullback(forward, pullback)(input)


@linalg()
def eigh(A: Array, UPLO: str = "L") -> Any:
    """The eigenvalues, in order, and eigenvectors of Hermitian matrices, of which one triangle is read.

    Source: `torch.linalg.eigh <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigh.html>`_.
    """
    return return_types.linalg_eigh(apply(_linalg_eigh.operation, (A,), (UPLO,)))


@linalg()
def eigvalsh(A: Array, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices.

    Source: `torch.linalg.eigvalsh <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigvalsh.html>`_.
    """
    return eigh(A, UPLO).eigenvalues


# -- LU --------------------------------------------------------------------------------------------------------------


def _lu_strides(operands: Any, shape: Any) -> Any:
    return matrix_columns(operands, shape)


@overload(
    "linalg_lu_factor_ex", "LinalgLuFactorExBackward0", saved=("A",), outputs=("LU", "pivots", "info"),
    kept=("LU", "pivots"), strides=_lu_strides,
)  # fmt: skip
def _linalg_lu_factor_ex(input: Array) -> Any:
    check_matrix("torch.lu_factor", input)
    check_lapack("lu_cpu", input)

    def forward(x: Any) -> Any:
        factor, pivots, _ = lax.linalg.lu(x)
        return factor, (pivots + 1).astype(np.int32)

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        (ct, _), (factor, pivots) = cts, outs
        least = min(x.shape[-2:])
        permutation = _permutation(pivots, x.shape[-2]).astype(x.dtype)
        return (_lu_pullback(permutation, *_triangles(factor), ct[..., :, :least], ct[..., :least, :]),)

    return *fgrad.define_rule(forward, vjp=pullback)(input), zero_pivot(input)


def _lu_pullback(permutation: Any, lower: Any, upper: Any, ct_lower: Any, ct_upper: Any) -> Any:
    """The cotangent of a matrix from those of its triangular factors."""
    least = lower.shape[-1]
    gl, gu = conjugate(ct_lower), conjugate(ct_upper)
    l1, l2, gl1, gl2 = lower[..., :least, :], lower[..., least:, :], gl[..., :least, :], gl[..., least:, :]
    u1, u2, gu1, gu2 = upper[..., :least], upper[..., least:], gu[..., :least], gu[..., least:]
    below, above = _times(adjoint(l1), jnp.tril(gl1, -1)), _times(jnp.triu(gu1), adjoint(u1))
    below = below - _times(gu2, adjoint(u2))
    above = above - _times(adjoint(l2), gl2)
    phi = jnp.tril(below, -1) + jnp.triu(above)
    top = triangular(adjoint(l1), triangular(adjoint(u1), phi, False, False, False), True, True, True)
    wide = triangular(adjoint(l1), gu2, True, True, True)
    tall = triangular(adjoint(u1), gl2, False, False, False)
    found = (
        jnp.concatenate([jnp.concatenate([top, wide], -1), tall], -2)
        if tall.shape[-2]
        else jnp.concatenate([top, wide], -1)
    )
    return conjugate(_times(permutation, found))


def _check_pivot(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@linalg()
def lu_factor_ex(A: Array, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """The LU factors in one matrix, the pivots, and 0, or which diagonal element is zero.

    Source: `torch.linalg.lu_factor_ex
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_factor_ex.html>`_.
    """
    _check_pivot(pivot)
    found = return_types.linalg_lu_factor_ex(apply(_linalg_lu_factor_ex.operation, (A,)))
    failure = first_failure(found.info) if check_errors else None
    if failure is not None:
        raise RuntimeError(
            f"torch.linalg.lu_factor: {failure[0]}U[{failure[1]},{failure[1]}] is zero and using it on lu_solve would "
            "result in a division by zero. If you still want to perform the factorization, consider calling "
            "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    return found


@linalg()
def lu_factor(A: Array, *, pivot: bool = True) -> Any:
    """The LU factors in one matrix, and the pivots.

    Source: `torch.linalg.lu_factor <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_factor.html>`_.
    """
    return return_types.linalg_lu_factor(lu_factor_ex(A, pivot=pivot, check_errors=True)[:2])


@composite(function=False)
def lu(self: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """The LU factors in one matrix, and the pivots; as ``linalg.lu_factor_ex``.

    Source: `torch.lu <https://docs.pytorch.org/docs/stable/generated/torch.lu.html>`_.
    """
    found = lu_factor_ex(self, pivot=pivot, check_errors=not get_infos)
    return tuple(found) if get_infos else tuple(found[:2])


def _permutation(pivots: Any, rows: int) -> Any:
    """The matrix P of PA = LU, transposed: A = P L U."""
    order = lax.linalg.lu_pivots_to_permutation(pivots.astype(np.int32) - 1, rows)
    return jnp.swapaxes(jnp.arange(rows, dtype=np.int32) == order[..., None], -1, -2)


def _triangles(factor: Any) -> tuple[Any, Any]:
    rows, width = factor.shape[-2:]
    least = min(rows, width)
    lower = jnp.tril(factor[..., :, :least], -1) + jnp.eye(rows, least, dtype=factor.dtype)
    return lower, jnp.triu(factor[..., :least, :])


@overload(
    "linalg_lu", "LinalgLuBackward0", saved=("A",), outputs=("P", "L", "U"), kept=("P", "L", "U"), auxiliary=("P",)
)
def _linalg_lu(input: Array) -> Any:
    check_matrix("linalg.lu", input)
    check_lapack("lu_cpu", input)

    def forward(x: Any) -> Any:
        factor, pivots, _ = lax.linalg.lu(x)
        return _permutation(pivots + 1, x.shape[-2]).astype(x.dtype), *_triangles(factor)

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        return (_lu_pullback(*outs, *cts[1:]),)

    return fgrad.define_rule(forward, vjp=pullback)(input)


@linalg(name="lu")
def linalg_lu(A: Array, *, pivot: bool = True) -> Any:
    """A permutation matrix, a lower and an upper triangular one, whose product is the matrix.

    Source: `torch.linalg.lu <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu.html>`_.
    """
    _check_pivot(pivot)
    return return_types.linalg_lu(apply(_linalg_lu.operation, (A,)))


@overload("lu_unpack", "LuUnpackBackward0", saved=("LU_data", "LU_pivots"), outputs=("P", "L", "U"), auxiliary=("P",))
def _lu_unpack(input: Array, LU_pivots: Fixed, unpack_data: bool, unpack_pivots: bool) -> Any:
    empty = jnp.zeros((0,), input.dtype)
    permutation = _permutation(LU_pivots, input.shape[-2]).astype(input.dtype) if unpack_pivots else empty
    return (permutation, *(_triangles(input) if unpack_data else (empty, empty)))


@composite(method=False)
def lu_unpack(LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The permutation and the triangular matrices from the compact form of ``lu_factor``.

    Source: `torch.lu_unpack <https://docs.pytorch.org/docs/stable/generated/torch.lu_unpack.html>`_.
    """
    if LU_pivots._type.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    return return_types.lu_unpack(apply(_lu_unpack.operation, (LU_data, LU_pivots), (unpack_data, unpack_pivots)))


@overload(
    "linalg_lu_solve", "LinalgLuSolveBackward0", saved=("LU", "pivots", "B"), kept=("LU", "pivots", "result"),
    strides=columns,
)  # fmt: skip
def _linalg_lu_solve(input: Array, pivots: Fixed, B: Array, adjoint_: bool) -> Any:
    check_square("torch.linalg.lu_solve", input)
    return _lu_solved(input, pivots, B, True, adjoint_)


@overload("linalg_lu_solve", "LinalgLuSolveBackward0", saved=("LU", "pivots", "B"), kept=("LU", "pivots", "result"))
def _linalg_lu_solve_right(input: Array, pivots: Fixed, B: Array, adjoint_: bool) -> Any:
    check_square("torch.linalg.lu_solve", input)
    return _lu_solved(input, pivots, B, False, adjoint_)


def _lu_solved(factor: Any, pivots: Any, b: Any, left: bool, adjoint_: bool) -> Any:
    """The solution from an LU factorisation, derived from itself."""
    check_inexact("torch.linalg.lu_solve", factor, half=True)
    check_lapack("linalg.lu_solve_cpu", factor)

    def solve(factor: Any, permutation: Any, b: Any, adjoint_: bool) -> Any:
        if adjoint_:
            inner = triangular(adjoint(factor), b, False, True, False)
            return _times(permutation, triangular(adjoint(factor), inner, True, True, True))
        inner = triangular(factor, _times(adjoint(permutation), b), False, True, True)
        return triangular(factor, inner, True, True, False)

    def forward(factor: Any, permutation: Any, b: Any) -> Any:
        if left:
            return solve(factor, permutation, b, adjoint_)
        return adjoint(solve(factor, permutation, adjoint(b), not adjoint_))

    def pullback(ct: Any, out: Any, factor: Any, permutation: Any, b: Any) -> tuple[Any, None, Any]:
        g = conjugate(ct)
        x, g, swapped = (out, g, adjoint_) if left else (adjoint(out), adjoint(g), not adjoint_)
        gb = solve(factor, permutation, g, not swapped)
        ga = -_times(x, adjoint(gb)) if swapped else -_times(gb, adjoint(x))
        lower, upper = _triangles(factor)
        moved = _times(adjoint(permutation), ga)
        found = jnp.tril(_times(moved, adjoint(upper)), -1) + jnp.triu(_times(adjoint(lower), moved))
        return conjugate(found), None, conjugate(gb if left else adjoint(gb))

    permutation = lax.stop_gradient(_permutation(pivots, factor.shape[-1]).astype(factor.dtype))
    return fgrad.define_rule(forward, vjp=pullback)(factor, permutation, b)


@linalg(name="lu_solve")
def linalg_lu_solve(LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of linear systems from the result of ``lu_factor``.

    Source: `torch.linalg.lu_solve <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu_solve.html>`_.
    """
    return (_linalg_lu_solve if left else _linalg_lu_solve_right)(LU, pivots, B, adjoint)


@composite()
def lu_solve(b: Array, LU_data: Array, LU_pivots: Array) -> Tensor:
    """``linalg.lu_solve`` with other names and order.

    Source: `torch.lu_solve <https://docs.pytorch.org/docs/stable/generated/torch.lu_solve.html>`_.
    """
    return linalg_lu_solve(LU_data, LU_pivots, b)


# -- Householder -----------------------------------------------------------------------------------------------------


@overload(
    "linalg_householder_product", "LinalgHouseholderProductBackward0", saved=("input", "tau"), strides=columns,
    kept=("input", "tau", "result"),
)  # fmt: skip
def _householder_product(input: Array, tau: Array) -> Any:
    function = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{function}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"{function}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{function}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    check_lapack("orgqr_cpu", input)
    return lax.linalg.householder_product(input, tau)


@linalg()
def householder_product(A: Array, tau: Array) -> Tensor:
    """The first columns of a product of Householder reflections.

    Source: `torch.linalg.householder_product
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.householder_product.html>`_.
    """
    return _householder_product(A, tau)


@composite()
def orgqr(input: Array, tau: Array) -> Tensor:
    """``linalg.householder_product`` by another name."""
    return householder_product(input, tau)


@overload("geqrf", "GeqrfBackward0", outputs=("a", "tau"), strides=matrix_columns)
def _geqrf(input: Array) -> Any:
    check_matrix("torch.geqrf", input, "input")
    check_lapack("geqrf_cpu", input)
    reflections, scales = jnp.linalg.qr(input, "raw")
    return transposed(reflections), scales


@composite()
def geqrf(input: Array) -> Any:
    """The reflections of a QR factorisation, and their scales.

    Source: `torch.geqrf <https://docs.pytorch.org/docs/stable/generated/torch.geqrf.html>`_.
    """
    return return_types.geqrf(apply(_geqrf.operation, (input,)))


@overload(
    "ormqr", "OrmqrBackward0", saved=("self", "input2", "input3"), kept=("self", "input2", "input3", "result"),
    strides=columns,
)  # fmt: skip
def _ormqr(input: Array, input2: Array, input3: Array, left: bool, transpose: bool) -> Any:
    check_lapack("ormqr_cpu", input)
    return lax.linalg.ormqr(input, input2, input3, left=left, transpose=transpose)


@composite()
def ormqr(input: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of Householder reflections with a matrix.

    Source: `torch.ormqr <https://docs.pytorch.org/docs/stable/generated/torch.ormqr.html>`_.
    """
    return _ormqr(input, tau, other, left, transpose)
