"""Solving with a triangular or a tridiagonal matrix.

From ``A X = B`` follows ``dX = A^-1 (dB - dA X)`` (Giles 2008, 2.3.1), and transposed

    B_bar = A^-T X_bar        A_bar = -B_bar X^T    on the entries that the solver reads.

The rule reads ``A`` and the solution ``X``, not ``B``.  It gives reverse mode; forward mode follows by transposing,
which meets only the solve in its linear argument ``B``, that is, reverse mode's first line.
"""

import numpy as np
from jax import lax

from fgrad.rules.kinds import General, define
from fgrad.rules.matrices import conj, matmul, t, tril, triu

# -- triangular_solve -------------------------------------------------------------------------------------------------


def _triangular_solve_vjp(
    ct, x, a, b, *, left_side, lower, transpose_a=False, conjugate_a=False, unit_diagonal=False, **_
):  # fmt: skip
    b_bar = lax.linalg.triangular_solve(
        a,
        ct,
        left_side=left_side,
        lower=lower,
        transpose_a=not transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    a_bar = lax.neg(matmul(b_bar, t(x)) if left_side else matmul(t(x), b_bar))
    # So far this belongs to what stands in the equation, which is op(a).
    a_bar = t(a_bar) if transpose_a else a_bar
    a_bar = conj(a_bar) if conjugate_a else a_bar
    a_bar = tril(a_bar, -int(unit_diagonal)) if lower else triu(a_bar, int(unit_diagonal))
    return a_bar, b_bar


define("triangular_solve", General(vjp=_triangular_solve_vjp))


# -- tridiagonal_solve ------------------------------------------------------------------------------------------------
#
# Row i of the matrix is (dl[i], d[i], du[i]) in columns i - 1, i, i + 1; dl[0] and du[-1] stick out and are not read.


def _shift(x, steps, axis):
    """``x`` moved along ``axis`` by ``steps``, with zeros moving in."""
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (steps, -steps, 0)
    return lax.pad(x, np.zeros((), x.dtype), pads)


def _tridiagonal_solve_vjp(ct, x, dl, d, du, b, **params):
    row = x.ndim - 2
    b_bar = lax.linalg.tridiagonal_solve(_shift(du, 1, row), d, _shift(dl, -1, row), ct, **params)

    def along(steps):
        """The diagonal of ``-b_bar x^T`` on which rows of ``b_bar`` meet rows of ``x`` moved by ``steps``."""
        moved = _shift(x, steps, row) if steps else x
        return lax.neg(lax.reduce_sum(lax.mul(b_bar, moved), (x.ndim - 1,)))

    return along(1), along(0), along(-1), b_bar


define("tridiagonal_solve", General(vjp=_tridiagonal_solve_vjp))
