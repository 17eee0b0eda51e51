"""Least squares problems, by the methods of LAPACK's drivers."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import mismatch
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.operation.operation import apply
from fgrad.torch import return_types
from fgrad.torch.ops.linalg.inverses import pseudo_inverse
from fgrad.torch.ops.linalg.matrices import (
    LinAlgError,
    adjoint,
    check_matrix,
    check_pair,
    column_major,
    conjugate,
    first_failure,
    first_zero,
    is_vector,
    linalg,
    matmul_exact,
)
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.outputs import safely_cast
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Float


def _pivoted(x: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """The QR factors of a matrix with pivoted columns, the pivots, and the rank that LAPACK's ``gelsy`` finds.

    It is the number of leading columns whose factor has a condition number below ``1 / rcond``.
    """
    q, r, pivots = jax.scipy.linalg.qr(x, mode="economic", pivoting=True)
    size = r.shape[0]
    row, column = jnp.arange(size)[:, None], jnp.arange(r.shape[1])

    def regular(count: Any) -> Any:
        values = jnp.linalg.svd(choose((row < count) & (column < count), r, 0), compute_uv=False)
        return (values[count - 1] > 0) & ((count == 1) | (values[count - 1] >= values[0] * rcond))

    rank = jnp.sum(jnp.cumprod(lax.map(regular, jnp.arange(1, size + 1))))
    return q, r, pivots, rank


def _basic_solution(x: Any, right_side: Any, rcond: Any) -> Any:
    """The solution of least norm of the leading columns of the pivoted factor, as LAPACK's ``gelsy`` gives it."""
    q, r, pivots, rank = _pivoted(x, rcond)
    leading = choose(jnp.arange(r.shape[0])[:, None] < rank, r, 0)
    found = matmul_exact(pseudo_inverse(leading, None, None, False), adjoint(q), right_side)
    return jnp.zeros_like(found).at[pivots].set(found)


def _rank(x: Any, rcond: Any) -> Any:
    return _pivoted(x, rcond)[3]


def _of_each(function: Callable[..., Any], x: Any, *others: Any) -> Any:
    """A function of matrices, applied to each of a batch."""
    for _ in x.shape[:-2]:
        function = jax.vmap(function)
    return function(x, *others)


def _least_squares(x: Any, right_side: Any, rcond: Any, pivoted: bool) -> Any:
    """The solution of least norm; as in PyTorch, its derivative does not depend on ``rcond``."""

    def of_full_rank(x: Any, right_side: Any) -> Any:
        return matmul_exact(pseudo_inverse(x, None, None, False), right_side)

    if rcond is None or not x.size or not right_side.size:
        return of_full_rank(x, right_side)

    def of_lower_rank(x: Any, right_side: Any, rcond: Any) -> Any:
        if pivoted:
            batch = jnp.broadcast_shapes(x.shape[:-2], right_side.shape[:-2])
            x, right_side = (jnp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (x, right_side))
            return _of_each(functools.partial(_basic_solution, rcond=rcond), x, right_side)
        return matmul_exact(pseudo_inverse(x, None, rcond, False), right_side)

    def pullback(ct: Any, out: Any, x: Any, right_side: Any, rcond: Any) -> tuple[Any, Any, None]:
        return *fgrad.vjp(of_full_rank, x, right_side)[1](ct), None

    return fgrad.define_rule(of_lower_rank, vjp=pullback)(x, right_side, rcond)


@overload("linalg_lstsq", None)
def _pivoted_rank(input: Array, rcond: Float) -> Any:
    return _of_each(functools.partial(_rank, rcond=rcond), lax.stop_gradient(input))


@overload(
    "linalg_lstsq",
    "LinalgLstsqBackward0",
    saved=("self", "b", "rcond"),
    outputs=("solution", "residuals"),
    always_saved=("self", "b", "solution"),
    strides=column_major,
    gradient_strides={"self": column_major},
)
def _linalg_lstsq(input: Array, B: Array, rcond: Float, pivoted: bool, with_residuals: bool) -> Any:
    vector = is_vector(input.shape, B.shape)
    right_side = B[..., None] if vector else B
    solution = _least_squares(input, right_side, rcond, pivoted)
    residual = matmul_exact(input, solution) - right_side
    squares = lax.real(residual * conjugate(residual)) if input.dtype.kind == "c" else residual * residual
    residuals = jnp.sum(squares, -2) if with_residuals else jnp.zeros(0, squares.dtype)
    return solution[..., 0] if vector else solution, residuals


@overload("linalg_lstsq", None)
def _deficiency(input: Array) -> Any:
    wide = input.shape[-2] < input.shape[-1]
    return first_zero(jnp.linalg.qr(lax.stop_gradient(adjoint(input) if wide else input), "r"))


def _check_full_rank(failure: tuple[str, int] | None) -> None:
    if failure is not None:
        raise LinAlgError(
            f"torch.linalg.lstsq: {failure[0]}The least squares solution could not be computed because the input "
            f"matrix does not have full rank (error code: {failure[1]})."
        )


def _check_problem(matrices: Any, right_side: Any, driver: Any) -> None:
    (a, b), function = (matrices.shape, right_side.shape), "torch.linalg.lstsq"
    if len(a) < 2:
        raise RuntimeError(f"{function}: input must have at least 2 dimensions.")
    if len(b) < 1:
        raise RuntimeError(f"{function}: other must have at least 1 dimension.")
    check_pair(function, matrices, right_side)
    if not 0 <= len(a) - len(b) <= 1:
        raise RuntimeError(
            f"{function}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    axis = -1 if is_vector(a, b) else -2
    if a[-2] != b[axis]:
        raise RuntimeError(f"{function}: input.size(-2) should match other.size({axis})")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{function}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if (error := mismatch(a[:-2], b[:axis])) is not None:
        raise error
    if matrices.dtype.kind not in "fc" or matrices.dtype.itemsize < 4:
        raise RuntimeError("This function doesn't handle types other than float and double")


def _tolerance(kind: str, rcond: float, dtype: np.dtype[Any]) -> float | None:
    """The tolerance that LAPACK's routines make of a given one; None for the one that has none."""
    if kind == "gels":
        return None
    invalid = rcond < 0 or (kind == "gelsd" and not 0 < rcond < 1)
    return float(np.finfo(dtype).eps) if invalid and kind != "gelsy" else rcond


@linalg(autocast="fp32", out=safely_cast("torch.linalg.lstsq", "solution", "residuals", "rank", "singular_values"))
def lstsq(A: Array, B: Array, rcond: float | None = None, *, driver: Any = None) -> Any:
    """The solution of least squares problems.

    Arguments:
      A, B: the matrices.
      rcond: singular values up to this factor of the largest count as zero; with the driver ``gelsy``, which is the
        default, columns that raise the condition number above its inverse.
      driver: LAPACK's method, which determines what else is returned; the solution is that of least norm.

    Returns:
      The solution, the squared residuals, the rank, and the singular values; the last three may be empty.

    Source: `torch.linalg.lstsq <https://docs.pytorch.org/docs/stable/generated/torch.linalg.lstsq.html>`_.
    """
    _check_problem(A._type.array, B._type.array, driver)
    rows, width = A._type.shape[-2:]
    kind, rcond = driver or "gelsy", None if rcond is None else float_of("linalg_lstsq", "rcond", rcond)
    rcond = None if rcond is None else _tolerance(kind, float(rcond), A._type.dtype.numpy)
    detached = A.detach()
    singular = _singular_values(detached)
    limit = (np.finfo(A._type.dtype.numpy).eps * max(rows, width)) if rcond is None else rcond
    pivoted = kind == "gelsy" and rcond is not None
    rank = (
        _pivoted_rank(detached, rcond)
        if pivoted and singular.numel()
        else (singular > singular[..., :1] * limit).sum(-1)
    )
    empty = singular.new_empty(0)
    with_residuals = rows > width and kind != "gelsy" and (kind == "gels" or bool((rank == width).all()))
    if kind == "gels":
        _check_full_rank(first_failure(apply(_deficiency.operation, (detached,))))
    solution, residuals = apply(_linalg_lstsq.operation, (A, B, rcond), (pivoted, with_residuals))
    return return_types.linalg_lstsq(
        (
            solution,
            residuals,
            empty.to(rank.dtype) if kind == "gels" else rank,
            singular if kind in ("gelsd", "gelss") else empty,
        )
    )


@overload("linalg_svdvals", None)
def _singular_values(input: Array) -> Any:
    check_matrix("linalg.svd", input)
    return jnp.linalg.svd(lax.stop_gradient(input), compute_uv=False)
