"""Matrix decompositions: ``cholesky``, ``cholesky_update``, ``lu``, ``qr``, ``eigh``, ``eig``, ``svd``, and relatives.

Each rule differentiates the defining equation and is written in forward mode, where that is the natural thing to do;
reverse mode follows by transposing.  The formulas read the factors, and the matrix itself only where these are not
all at hand.  Sources: Giles 2008, "An extended collection of matrix derivative results" (eig, svd); Murray 2016,
arXiv:1602.07527 (cholesky); de Hoog et al. 2011 (lu); Townsend 2018, "Differentiating the QR decomposition", and
Roberts & Roberts 2020, arXiv:2009.10071 (wide qr); arXiv:2409.13374 (full qr).

Where several answers are right (which triangle counts, the phase of an eigenvector), JAX's convention holds.
Equal eigenvalues or singular values have no differentiable vectors: infinities and NaN come out, but only in what
depends on the vectors.
"""

from typing import Any

import numpy as np
from jax import lax

from fgrad.rules.kinds import General, Undefined, Zero, define
from fgrad.rules.matrices import (
    as_columns,
    as_rows,
    block,
    conj,
    diagonal,
    eye,
    h,
    halve_diagonal,
    matmul,
    real,
    solve,
    stack_columns,
    stack_rows,
    t,
    take_rows,
    tril,
    triu,
)


def _solve_left(a: Any, b: Any, **flags: Any) -> Any:
    """``a^-1 b`` for a triangular ``a``."""
    return lax.linalg.triangular_solve(a, b, left_side=True, **flags)


def _solve_right(b: Any, a: Any, **flags: Any) -> Any:
    """``b a^-1`` for a triangular ``a``."""
    return lax.linalg.triangular_solve(a, b, left_side=False, **flags)


# -- cholesky: A = L L^H ----------------------------------------------------------------------------------------------
#
# L^-1 dA L^-H = L^-1 dL + (L^-1 dL)^H, of which the first term is the lower triangle with half the diagonal.  The
# primitive reads the lower triangle of A alone, as if the upper one mirrored it, and so does its derivative.


def _cholesky_jvp(tangents, out, _a, **_):
    da = tangents[0]
    below = tril(da, -1)
    da = lax.add(lax.add(below, h(below)), lax.mul(eye(da), lax.convert_element_type(real(da), da.dtype)))
    inner = _solve_right(_solve_left(out, da, lower=True), out, lower=True, transpose_a=True, conjugate_a=True)
    return matmul(tril(out), halve_diagonal(tril(inner)))


define("cholesky", General(jvp=_cholesky_jvp))


# -- cholesky_update: out^T out = R^T R + w w^T, upper triangular -----------------------------------------------------


def _cholesky_update_jvp(tangents, out, r, w, **_):
    dr, dw = tangents
    # d(R^T R + w w^T) is half + half^T.
    halves = []
    if dr is not None:
        halves.append(matmul(t(triu(r)), triu(dr)))
    if dw is not None:
        halves.append(lax.mul(as_columns(w, r), as_rows(dw, r)))
    half = halves[0] if len(halves) == 1 else lax.add(*halves)
    both = lax.add(half, t(half))
    inner = _solve_right(_solve_left(out, both, lower=False, transpose_a=True), out, lower=False)
    return matmul(halve_diagonal(triu(inner)), triu(out))


define("cholesky_update", General(jvp=_cholesky_update_jvp))


# -- symmetric_product: alpha A A^T + beta C --------------------------------------------------------------------------


def _symmetric_product_vjp(ct, _out, a, _c, *, alpha, beta, **_):
    a_bar = matmul(lax.add(ct, t(ct)), a)
    return lax.mul(a_bar, lax.full_like(a_bar, alpha)), lax.mul(ct, lax.full_like(ct, beta))


define("symmetric_product", General(vjp=_symmetric_product_vjp))


# -- lu: P A = L U, both packed in one matrix -------------------------------------------------------------------------
#
# L^-1 P dA U^-1 = L^-1 dL + dU U^-1, which are its parts below and above.  Rows or columns that stick out of the
# square part follow from that: they satisfy linear equations with the square factor.


def _lu_jvp(tangents, outs, _a, **_):
    lu, _pivots, permutation = outs
    da = take_rows(tangents[0], permutation)
    m, n = lu.shape[-2:]
    k = min(m, n)
    square = block(lu, (0, k), (0, k))
    inner = _solve_left(square, block(da, (0, k), (0, k)), lower=True, unit_diagonal=True)
    inner = _solve_right(inner, square, lower=False)
    dl = matmul(lax.add(tril(square, -1), eye(square)), tril(inner, -1))
    du = matmul(triu(inner), triu(square))
    out = lax.add(dl, du)
    if m > n:
        rest = lax.sub(block(da, (k, m)), matmul(block(lu, (k, m)), du))
        out = stack_rows(out, _solve_right(rest, square, lower=False))
    if m < n:
        rest = lax.sub(block(da, None, (k, n)), matmul(dl, block(lu, None, (k, n))))
        out = stack_columns(out, _solve_left(square, rest, lower=True, unit_diagonal=True))
    return out, None, None


define("lu", General(jvp=_lu_jvp))
define("lu_pivots_to_permutation", Zero())


# -- qr: A = Q R, or A P = Q R ----------------------------------------------------------------------------------------
#
# Let k = min(m, n) and let dA_1, R_1 be the first k columns.  With S = Q^H dA_1 R_1^-1 the equation reads
# S = Omega + dR_1 R_1^-1, where Omega = Q^H dQ is skew-Hermitian and the other term is upper triangular with a real
# diagonal.  So Omega is S below the diagonal, and dQ = Q Omega + (1 - Q Q^H) dA_1 R_1^-1, dR = Q^H dA - Omega R.


def thin_qr_jvp(q: Any, r: Any, da: Any) -> tuple[Any, Any]:
    """The tangents of ``q`` and ``r`` with k columns and k rows."""
    k = q.shape[-1]
    quotient = _solve_right(block(da, None, (0, k)), block(r, None, (0, k)), lower=False)
    s = matmul(h(q), quotient)
    below = tril(s, -1)
    omega = lax.sub(below, h(below))
    if np.issubdtype(s.dtype, np.complexfloating):
        omega = lax.add(omega, lax.mul(eye(s), lax.complex(lax.full_like(lax.real(s), 0), lax.imag(s))))
    dq = lax.add(matmul(q, lax.sub(omega, s)), quotient)
    return dq, triu(lax.sub(matmul(h(q), da), matmul(omega, r)))


def _qr_jvp(tangents, outs, a, *, pivoting, full_matrices, **_):
    q_out, r_out, *permutation = outs
    da = t(take_rows(t(tangents[0]), permutation[0])) if pivoting else tangents[0]
    m, n = a.shape[-2:]
    k = min(m, n)
    q, r = block(q_out, None, (0, k)), block(r_out, (0, k))
    dq, dr = thin_qr_jvp(q, r, da)
    if full_matrices and m > n:
        dq = stack_columns(dq, _qr_complement(q, block(q_out, None, (n, m)), dq))
        dr = stack_rows(dr, lax.full((*dr.shape[:-2], m - n, n), 0, dr.dtype))
    return (dq, dr, None) if pivoting else (dq, dr)


def _qr_complement(q, q_rest, dq):
    """The tangent of the last columns of a full Q, which Householder's method picks as a function of the first ones.

    Q is a product of reflections, so ``Q - 1 = Y W`` with ``Y`` of n columns; ``z = Y_2 Y_1^-1`` is what the lower
    rows of ``Q - 1`` are of the upper ones.  See arXiv:2409.13374, equations 32 and 33.
    """
    m, n = q.shape[-2:]
    top, low = block(q, (0, n)), block(q, (n, m))
    z = h(solve(h(lax.sub(top, eye(top))), h(low)))
    inner = lax.sub(block(dq, (n, m)), matmul(z, block(dq, (0, n))))
    return lax.sub(matmul(dq, h(z)), matmul(lax.add(q, matmul(q_rest, z)), h(inner)))


define("qr", General(jvp=_qr_jvp))


# -- eigh: A V = V w, with V unitary ----------------------------------------------------------------------------------


def _reciprocal(gaps: Any) -> Any:
    """``1 / gaps`` off the diagonal, zero on it."""
    one = eye(gaps)
    return lax.sub(lax.reciprocal(lax.add(gaps, one)), one)


def _eigh_jvp(tangents, outs, a, *, subset_by_index=None, **_):
    if subset_by_index not in (None, (0, a.shape[-1])):
        raise NotImplementedError(
            f"eigh with subset_by_index={subset_by_index} has no derivative: how an eigenvector turns depends on all "
            "the others. Compute all of them and take the part you need: eigh(a) and v[:, i:j]."
        )
    v, w = outs
    inner = matmul(h(v), matmul(tangents[0], v))
    gaps = lax.sub(as_rows(w, inner), as_columns(w, inner))
    turn = lax.mul(lax.convert_element_type(_reciprocal(gaps), v.dtype), inner)
    return matmul(v, turn), diagonal(real(inner))


define("eigh", General(jvp=_eigh_jvp))


# -- eig: A V = V w, and V_l^H A = w V_l^H ----------------------------------------------------------------------------
#
# The equation leaves a factor open for each vector.  LAPACK makes the norm one and the largest entry real; as JAX
# does, the rule follows this choice.


def _eigenvectors_jvp(w, v, da):
    inner = solve(v, matmul(da, v))
    gaps = lax.sub(as_rows(w, inner), as_columns(w, inner))
    turned = matmul(v, lax.mul(_reciprocal(gaps), inner))
    row = v.ndim - 2
    largest = lax.argmax(lax.abs(v), row, np.int32)
    here = lax.eq(lax.broadcasted_iota(np.int32, v.shape, row), as_rows(largest, v))
    zero = lax.full_like(v, 0)
    norm = lax.reduce_sum(lax.real(lax.mul(conj(v), turned)), (row,))
    phase = lax.div(
        lax.reduce_sum(lax.imag(lax.select(here, turned, zero)), (row,)),
        lax.reduce_sum(lax.real(lax.select(here, v, zero)), (row,)),
    )
    factor = lax.neg(lax.complex(norm, phase))
    return diagonal(inner), lax.add(turned, lax.mul(v, as_rows(factor, v)))


def _in_order_of(w, w_again, dw, like):
    """``dw``, which belongs to ``w_again``, in the order of ``w``.

    LAPACK may find the eigenvalues in another order when it need not compute vectors (seen at n = 200).  Equal
    eigenvalues each keep their own place, so that symmetric functions of all come out right.
    """
    own = lax.abs(lax.sub(w, w_again))
    distance = lax.abs(lax.sub(as_columns(w, like), as_rows(w_again, like)))
    axis = like.ndim - 1
    least = lax.reduce_min(distance, (axis,))
    size = lax.broadcast_in_dim(lax.reduce_max(lax.abs(w), (axis - 1,)), own.shape, tuple(range(axis - 1)))
    rounding = lax.mul(size, lax.full_like(size, 100 * float(np.finfo(size.dtype).eps)))
    stays = lax.le(own, lax.add(lax.add(least, least), rounding))
    place = lax.broadcasted_iota(np.int32, w.shape, axis - 1)
    place = lax.select(stays, place, lax.argmin(distance, axis, np.int32))
    here = lax.eq(lax.broadcasted_iota(np.int32, like.shape, axis), as_columns(place, like))
    return lax.reduce_sum(lax.select(here, as_rows(dw, like), lax.full_like(like, 0)), (axis,))


def _eig_jvp(
    tangents, outs, a, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs=False, **params
):  # fmt: skip
    vectors = compute_left_eigenvectors + compute_right_eigenvectors
    if vectors and not enable_eigvec_derivs:
        raise NotImplementedError(
            "eig is not differentiated where it computes eigenvectors, since these are fixed only by conventions that "
            "are not smooth everywhere. For eigenvalues, use eigvals; to accept LAPACK's conventions (norm one, "
            "largest entry real), call jax.lax.linalg.eig(..., enable_eigvec_derivs=True)."
        )
    w = outs[0]
    da = lax.convert_element_type(tangents[0], w.dtype)
    if not vectors:
        # The result depends on no convention for v, so v may be differentiated in turn.
        params = {"compute_left_eigenvectors": False, "enable_eigvec_derivs": True, **params}
        w_again, v = lax.linalg.eig(a, **params)
        if not a.shape[-1]:
            return (lax.full_like(w, 0),)
        dw = lax.reduce_sum(lax.mul(solve(v, da), t(v)), (a.ndim - 1,))
        return (_in_order_of(w, w_again, dw, v),)
    dw = None
    derivatives = []
    if compute_left_eigenvectors:
        dw, dv = _eigenvectors_jvp(conj(w), outs[1], h(da))
        dw = conj(dw)
        derivatives.append(dv)
    if compute_right_eigenvectors:
        dw, dv = _eigenvectors_jvp(w, outs[-1], da)
        derivatives.append(dv)
    return (dw, *derivatives)


define("eig", General(jvp=_eig_jvp))


# -- svd: A = U s V^H -------------------------------------------------------------------------------------------------


def _svd_jvp(tangents, outs, a, *, full_matrices, compute_uv, subset_by_index=None, **params):
    da = tangents[0]
    m, n = a.shape[-2:]
    if not compute_uv:
        u, _s, vh = lax.linalg.svd(a, full_matrices=False, subset_by_index=subset_by_index, **params)
        return (diagonal(real(matmul(h(u), matmul(da, h(vh))))),)
    if full_matrices and m != n:
        raise NotImplementedError(
            "svd with full_matrices=True has no derivative for a matrix that is not square: the additional singular "
            "vectors are an arbitrary choice. Use full_matrices=False."
        )
    if subset_by_index not in (None, (0, min(m, n))):
        raise NotImplementedError(
            f"svd with subset_by_index={subset_by_index} and compute_uv=True has no derivative: how a singular vector "
            "turns depends on all the others. Compute all of them and take the part you need: svd(a) and u[:, i:j]."
        )
    s, u, vh = outs
    uh, v = h(u), h(vh)
    inner = matmul(uh, matmul(da, v))
    own, other = as_rows(s, inner), as_columns(s, inner)
    turn = lax.convert_element_type(_reciprocal(lax.mul(lax.add(own, other), lax.sub(own, other))), a.dtype)
    own, other = lax.convert_element_type(own, a.dtype), lax.convert_element_type(other, a.dtype)
    du = matmul(u, lax.mul(turn, _plus_adjoint(lax.mul(own, inner))))
    dv = matmul(v, lax.mul(turn, _plus_adjoint(lax.mul(other, inner))))
    if np.issubdtype(a.dtype, np.complexfloating):
        # The phase that a pair of vectors shares is free; as in JAX, all of the change is given to u.
        vanishing = lax.convert_element_type(lax.eq(s, lax.full_like(s, 0)), s.dtype)
        inverse = lax.sub(lax.reciprocal(lax.add(s, vanishing)), vanishing)
        phase = lax.mul(lax.imag(diagonal(inner)), inverse)
        du = lax.add(du, lax.mul(u, as_rows(lax.complex(lax.full_like(phase, 0), phase), u)))
    if m > n:
        out_of_span = matmul(da, v)
        out_of_span = lax.sub(out_of_span, matmul(u, matmul(uh, out_of_span)))
        du = lax.add(du, lax.div(out_of_span, lax.convert_element_type(as_rows(s, u), a.dtype)))
    if m < n:
        out_of_span = matmul(h(da), u)
        out_of_span = lax.sub(out_of_span, matmul(v, matmul(vh, out_of_span)))
        dv = lax.add(dv, lax.div(out_of_span, lax.convert_element_type(as_rows(s, v), a.dtype)))
    return diagonal(real(inner)), du, h(dv)


def _plus_adjoint(x: Any) -> Any:
    return lax.add(x, h(x))


define("svd", General(jvp=_svd_jvp))


# -- no derivative ----------------------------------------------------------------------------------------------------

define("schur", Undefined("the Schur form is not differentiated; for eigenvalues use eigvals, for functions expm etc."))
define("hessenberg", Undefined("the Hessenberg form is not differentiated; use qr, eig or svd"))
define("tridiagonal", Undefined("the tridiagonal form is not differentiated; use eigh"))
