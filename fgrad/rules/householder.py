"""Products of Householder reflections: ``householder_product``, ``ormqr``, and ``geqrf``, which finds them.

The product of ``H_i = 1 - tau_i v_i v_i^H`` is ``1 - V M V^H`` with the unit lower trapezoidal V of the vectors and

    M = (1 + D S)^-1 D,    D = diag(tau),    S = the strict upper triangle of V^H V

(the compact WY form of Schreiber & Van Loan 1989, written so that tau = 0 is allowed).  JAX has no rules for these.
"""

import numpy as np
from jax import lax

from fgrad.rules.decompositions import thin_qr_jvp
from fgrad.rules.kinds import General, define
from fgrad.rules.matrices import (
    as_columns,
    as_rows,
    block,
    diagonal,
    eye,
    h,
    matmul,
    stack_rows,
    tril,
    triu,
)


def _vectors(a, taus):
    """V: the columns of ``a`` below the diagonal, and ones on it."""
    below = tril(block(a, None, (0, taus.shape[-1])), -1)
    return lax.add(below, eye(below))


def _middle(v, taus):
    """M, and the factors ``1 + D S`` and S."""
    s = triu(matmul(h(v), v), 1)
    d = lax.mul(as_columns(taus, s), eye(s))
    factor = lax.add(eye(s), matmul(d, s))
    return lax.linalg.triangular_solve(factor, d, left_side=True, lower=False, unit_diagonal=True), factor, s


def _change(tangents, a, taus):
    """The maps ``x -> -dQ x`` and ``x -> -dQ^H x`` for the square Q."""
    da, dtaus = tangents
    v = _vectors(a, taus)
    m, factor, s = _middle(v, taus)
    dv = lax.full_like(v, 0) if da is None else tril(block(da, None, (0, taus.shape[-1])), -1)
    cross = matmul(h(v), dv)
    ds = triu(lax.add(cross, h(cross)), 1)
    inner = lax.neg(lax.mul(as_columns(taus, s), matmul(ds, m)))
    if dtaus is not None:
        inner = lax.add(inner, lax.mul(as_columns(dtaus, s), lax.sub(eye(s), matmul(s, m))))
    dm = lax.linalg.triangular_solve(factor, inner, left_side=True, lower=False, unit_diagonal=True)

    def times(x, m, dm):
        below = matmul(h(v), x)
        through_v = lax.add(matmul(dm, below), matmul(m, matmul(h(dv), x)))
        return lax.add(matmul(dv, matmul(m, below)), matmul(v, through_v))

    return lambda x: times(x, m, dm), lambda x: times(x, h(m), h(dm))


def _apply(a, taus, x, adjoint):
    """``Q x`` or ``Q^H x`` for the square Q."""
    v = _vectors(a, taus)
    m, _factor, _s = _middle(v, taus)
    return lax.sub(x, matmul(v, matmul(h(m) if adjoint else m, matmul(h(v), x))))


# -- householder_product: the first columns of Q ----------------------------------------------------------------------


def _householder_product_jvp(tangents, _out, a, taus, **_):
    change, _adjoint = _change(tangents, a, taus)
    return lax.neg(change(eye(a)))


define("householder_product", General(jvp=_householder_product_jvp))


# -- ormqr: Q C, Q^H C, C Q or C Q^H ----------------------------------------------------------------------------------


def _ormqr_jvp(tangents, _out, a, taus, c, *, left, transpose, **_):
    *d_reflections, dc = tangents
    terms = []
    if dc is not None:
        # Not by ormqr itself: reverse mode transposes this rule, and would meet ormqr's transpose in it.
        terms.append(_apply(a, taus, dc, transpose) if left else h(_apply(a, taus, h(dc), not transpose)))
    if any(tangent is not None for tangent in d_reflections):
        maps = _change(d_reflections, a, taus)
        terms.append(lax.neg(maps[transpose](c) if left else h(maps[not transpose](h(c)))))
    return terms[0] if len(terms) == 1 else lax.add(*terms)


define("ormqr", General(jvp=_ormqr_jvp))


# -- geqrf: A = Q R, giving R and, packed below it, the vectors of Q --------------------------------------------------
#
# The first k = min(m, n) columns of 1 - Q are V W with W = M V_1^H, an LU decomposition with tau as the diagonal of W:
# so dV and dtau follow from dQ as the factors' tangents do in LU.


def _geqrf_jvp(tangents, outs, _a, **_):
    packed, taus = outs
    m, _n = packed.shape[-2:]
    k = taus.shape[-1]
    v = _vectors(packed, taus)
    w = matmul(_middle(v, taus)[0], h(block(v, (0, k))))
    q = lax.linalg.householder_product(block(packed, None, (0, k)), taus)
    dq, dr = thin_qr_jvp(q, triu(block(packed, (0, k))), tangents[0])
    if m == k and k:
        # Real matrices have tau = 0 in the last column, where no entry is left to eliminate: keep W invertible.
        last = lax.eq(lax.broadcasted_iota(np.int32, taus.shape, taus.ndim - 1), np.int32(k - 1))
        invertible = lax.add(w, lax.mul(eye(w), as_rows(lax.convert_element_type(last, w.dtype), w)))
    else:
        invertible = w
    inner = lax.neg(_unit_solve(v, block(dq, (0, k))))
    below = tril(_divide(inner, invertible), -1)
    dw = triu(lax.sub(inner, matmul(below, w)))
    out = lax.add(tril(matmul(block(v, (0, k)), below), -1), block(dr, None, (0, k)))
    if m > k:
        rest = lax.neg(lax.add(block(dq, (k, m)), matmul(block(v, (k, m)), dw)))
        out = stack_rows(out, _divide(rest, w))
    if dr.shape[-1] > k:
        out = lax.concatenate([out, block(dr, None, (k, dr.shape[-1]))], out.ndim - 1)
    return out, diagonal(dw)


def _unit_solve(v, x):
    square = block(v, (0, v.shape[-1]))
    return lax.linalg.triangular_solve(square, x, left_side=True, lower=True, unit_diagonal=True)


def _divide(x, w):
    return lax.linalg.triangular_solve(w, x, left_side=False, lower=False)


define("geqrf", General(jvp=_geqrf_jvp))
