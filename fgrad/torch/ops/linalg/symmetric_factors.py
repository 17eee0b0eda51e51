"""LDL factors of symmetric matrices, which need not be positive-definite: ``A = L D L^T``.

NOTE [Bunch-Kaufman]
``D`` has blocks of one or two rows on its diagonal, and rows are exchanged so that no block is nearly singular.  Both
factors are in one matrix, in the form of LAPACK's ``sytf2``.  A pivot ``p > 0`` at ``k`` says that rows ``k`` and ``p``
were exchanged (counted from 1); two equal negative pivots mark a block of two rows, the second of which was exchanged
with row ``-p``.

Source: Bunch and Kaufman, Some stable methods for calculating inertia and solving symmetric linear systems (1977)
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import return_types
from fgrad.torch.ops.linalg.matrices import (
    check_inexact,
    check_square,
    column_major,
    first_failure,
    linalg,
    matrix_column_major,
)
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Fixed
from fgrad.torch.random.scalars import not_implemented

#: the threshold that bounds the growth of elements
_ALPHA = (1 + math.sqrt(17)) / 8


def _batched(function: Callable[..., Any], rank: int, *arrays: Any) -> Any:
    """A function of matrices, mapped over ``rank`` batch axes."""
    for _ in range(rank):
        function = jax.vmap(function)
    return function(*arrays)


def _magnitude(x: Any) -> Any:
    """The magnitude by which LAPACK compares elements."""
    return jnp.abs(jnp.real(x)) + jnp.abs(jnp.imag(x)) if x.dtype.kind == "c" else jnp.abs(x)


def _exchanged(count: int, i: Any, j: Any) -> Any:
    """The permutation that exchanges two rows."""
    order = jnp.arange(count)
    return choose(order == i, j, choose(order == j, i, order))


def _inverse_of_two(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """The inverse of ``[[a, b], [c, d]]``."""
    determinant = a * d - b * c
    return d / determinant, -b / determinant, -c / determinant, a / determinant


def _choose_pivot(matrix: Any, k: Any) -> tuple[Any, Any, Any]:
    """The row to exchange at ``k``, whether the block is a single row, and whether its column is zero."""
    rows = jnp.arange(matrix.shape[-1])
    below = choose(rows > k, _magnitude(matrix[:, k]), 0)
    largest, row = jnp.max(below), jnp.argmax(below)
    diagonal = _magnitude(matrix[k, k])
    largest_in_row = jnp.max(choose((rows >= k) & (rows != row), _magnitude(matrix[row]), 0))
    zero = jnp.maximum(diagonal, largest) == 0
    stays = zero | (diagonal >= _ALPHA * largest) | (diagonal * largest_in_row >= _ALPHA * largest * largest)
    single = stays | (_magnitude(matrix[row, row]) >= _ALPHA * largest_in_row)
    return choose(stays, k, row), single, zero


def _eliminate(matrix: Any, k: Any, single: Any, zero: Any, conjugate: Callable[[Any], Any]) -> Any:
    """Subtract the block at ``k`` from the rows below it, and store its factors in its columns."""
    n = matrix.shape[-1]
    last, second = choose(single, k, k + 1), jnp.minimum(k + 1, n - 1)
    below = jnp.arange(n) > last
    first_column, second_column = (choose(below, matrix[:, i], 0) for i in (k, second))
    quotient = first_column / choose(zero, 1, matrix[k, k])
    a, b, c, d = _inverse_of_two(matrix[k, k], matrix[k, second], matrix[second, k], matrix[second, second])
    first_factor = choose(single, quotient, first_column * a + second_column * c)
    second_factor = choose(single, 0, first_column * b + second_column * d)
    second_column = choose(single, 0, second_column)
    matrix = (
        matrix
        - first_factor[:, None] * conjugate(first_column)[None, :]
        - second_factor[:, None] * conjugate(second_column)[None, :]
    )
    matrix = matrix.at[:, k].set(choose(below, first_factor, matrix[:, k]))
    return matrix.at[:, second].set(choose(~single & below, second_factor, matrix[:, second]))


def _factored(matrix: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """The factors in one matrix, the pivots, and the first column without a pivot: see NOTE [Bunch-Kaufman]."""
    n = matrix.shape[-1]
    if not n:
        return matrix, jnp.zeros(0, np.int32), jnp.zeros((), np.int32)
    rows = jnp.arange(n)
    lower = jnp.tril(matrix, -1)
    diagonal = jnp.diagonal(matrix)
    conjugate = jnp.conj if hermitian else lambda x: x
    if hermitian:
        diagonal = jnp.real(diagonal).astype(matrix.dtype)
    full = lower + conjugate(lower).T + jnp.diag(diagonal)

    def advance(k: Any, state: Any) -> Any:
        full, pivots, info, block_start = state
        row, single, zero = _choose_pivot(full, k)
        last = choose(single, k, k + 1)
        order = _exchanged(n, last, row)
        trailing = (rows[:, None] >= k) & (rows[None, :] >= k)
        exchanged = choose(trailing, full[order][:, order], full)
        eliminated = _eliminate(exchanged, k, single, zero, conjugate)
        pivot = choose(single, row + 1, -(row + 1))
        # nothing is left to do at the second row of a block
        starts = block_start == k
        pivots = choose(starts & (rows >= k) & (rows <= last), pivot, pivots)
        info = choose(starts & (info == 0) & zero, k + 1, info)
        return choose(starts, eliminated, full), pivots, info, choose(starts, last + 1, block_start)

    begin = (full, jnp.zeros(n, np.int64), jnp.zeros((), np.int64), jnp.zeros((), np.int64))
    full, pivots, info, _ = lax.fori_loop(0, n, advance, begin)
    if hermitian:
        full = choose(jnp.eye(n, dtype=bool), jnp.real(full).astype(full.dtype), full)
    return jnp.tril(full), pivots.astype(np.int32), info.astype(np.int32)


def _solved(factors: Any, pivots: Any, right_side: Any, hermitian: bool) -> Any:
    """The solution of a system from the result of ``_factored``."""
    n = factors.shape[-1]
    if not n:
        return right_side
    rows = jnp.arange(n)[:, None]
    conjugate = jnp.conj if hermitian else lambda x: x

    def column(k: Any, last: Any) -> Any:
        return choose(rows > last, factors[:, k][:, None], 0)

    def down(k: Any, state: Any) -> Any:
        before, begins = state
        single = pivots[k] > 0
        last = choose(single, k, k + 1)
        second = jnp.minimum(k + 1, n - 1)
        x = before[_exchanged(n, last, jnp.abs(pivots[k]) - 1)]
        x = x - column(k, last) * x[k] - choose(single, 0, column(second, last) * x[second])
        off = factors[second, k]
        a, b, c, d = _inverse_of_two(factors[k, k], conjugate(off), off, factors[second, second])
        first_value, second_value = x[k], x[second]
        x = x.at[second].set(choose(single, second_value, c * first_value + d * second_value))
        x = x.at[k].set(choose(single, first_value / factors[k, k], a * first_value + b * second_value))
        active = begins == k
        return choose(active, x, before), choose(active, last + 1, begins)

    def up(i: Any, state: Any) -> Any:
        before, ends = state
        last = n - 1 - i
        single = pivots[last] > 0
        x = before
        for k, present in ((last, True), (jnp.maximum(last - 1, 0), ~single)):
            x = x.at[k].set(x[k] - choose(present, jnp.sum(conjugate(column(k, last)) * x, 0), 0))
        x = x[_exchanged(n, last, jnp.abs(pivots[last]) - 1)]
        active = ends == last
        return choose(active, x, before), choose(active, choose(single, last - 1, last - 2), ends)

    x, _ = lax.fori_loop(0, n, down, (right_side, jnp.zeros((), np.int64)))
    return lax.fori_loop(0, n, up, (x, jnp.full((), n - 1, np.int64)))[0]


@overload(
    "linalg_ldl_factor_ex", NOT_IMPLEMENTED, strides=matrix_column_major, outputs=("LD", "pivots", "info"),
)  # fmt: skip
def _ldl_factor_ex(input: Array, hermitian: bool) -> Any:
    check_square("torch.linalg.ldl_factor_ex", input)
    if input.dtype.kind in "fcbiu":
        check_inexact("torch.linalg.ldl_factor_ex", input, half=True)
    if input.dtype.itemsize < 4:
        raise not_implemented("ldl_factor_kernel_cpu", input.dtype)
    conjugated = hermitian and input.dtype.kind == "c"
    return _batched(lambda x: _factored(x, conjugated), input.ndim - 2, input)


@linalg()
def ldl_factor_ex(A: Array, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """The factors of a symmetric matrix in one matrix, the pivots, and the first column without a pivot, or 0.

    Arguments:
      A: a symmetric matrix, or a batch of them, of which only the lower triangle is read.
      hermitian: whether complex matrices are Hermitian rather than symmetric.
      check_errors: whether a column without a pivot is an error.

    Raises:
      RuntimeError: the matrix is not square, its elements are integers, or a column has no pivot.

    >>> import fgrad.torch as torch
    >>> torch.linalg.ldl_factor_ex(torch.tensor([[4., 2.], [2., 3.]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])

    Source: `torch.linalg.ldl_factor_ex
    <https://docs.pytorch.org/docs/2.13/generated/torch.linalg.ldl_factor_ex.html>`_.
    """
    return _checked("torch.linalg.ldl_factor_ex", A, hermitian, check_errors)


def _checked(function: str, A: Tensor, hermitian: bool, check_errors: bool) -> Any:
    factors = return_types.linalg_ldl_factor_ex(apply(_ldl_factor_ex.operation, (A,), (hermitian,)))
    failure = first_failure(factors.info) if check_errors else None
    if failure is not None:
        raise RuntimeError(f"{function}: {failure[0]}column {failure[1]} has no pivot: the matrix is singular")
    return factors


@linalg()
def ldl_factor(A: Array, *, hermitian: bool = False) -> Any:
    """The factors of a symmetric matrix in one matrix, and the pivots: ``ldl_factor_ex`` with its errors checked.

    >>> import fgrad.torch as torch
    >>> torch.linalg.ldl_factor(torch.tensor([[4., 2.], [2., 3.]])).pivots
    tensor([1, 2], dtype=torch.int32)

    Source: `torch.linalg.ldl_factor <https://docs.pytorch.org/docs/2.13/generated/torch.linalg.ldl_factor.html>`_.
    """
    return return_types.linalg_ldl_factor(_checked("torch.linalg.ldl_factor", A, hermitian, True)[:2])


@overload("linalg_ldl_solve", NOT_IMPLEMENTED, strides=column_major)
def _ldl_solve(input: Array, pivots: Fixed, B: Array, hermitian: bool) -> Any:
    shape = jnp.broadcast_shapes(input.shape[:-2], B.shape[:-2])
    conjugated = hermitian and input.dtype.kind == "c"
    operands = [jnp.broadcast_to(x, shape + x.shape[-k:]) for x, k in ((input, 2), (pivots, 1), (B, 2))]
    return _batched(lambda ld, p, b: _solved(ld, p, b, conjugated), len(shape), *operands)


@linalg()
def ldl_solve(LD: Array, pivots: Array, B: Array, *, hermitian: bool = False) -> Tensor:
    """The solution of linear systems from the result of ``ldl_factor``.

    Raises:
      RuntimeError: sizes or types do not agree.

    >>> import fgrad.torch as torch
    >>> A = torch.tensor([[4., 2.], [2., 3.]])
    >>> torch.linalg.ldl_solve(*torch.linalg.ldl_factor(A), torch.tensor([[8.], [8.]]))
    tensor([[1.],
            [2.]])

    Source: `torch.linalg.ldl_solve <https://docs.pytorch.org/docs/2.13/generated/torch.linalg.ldl_solve.html>`_.
    """
    check_square("torch.linalg.ldl_solve", LD._type.array, "LD")
    if B.dim() < 2:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.dim()} dimensions instead"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if B.shape[-2] != LD.shape[-1]:
        rows, sizes = LD.shape[-1], tuple(B.shape[-2:])
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {rows} by {rows} but each b "
            f"matrix is {sizes[0]} by {sizes[1]}"
        )
    if B.dtype is not LD.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{B.dtype.scalar_name} and A of type {LD.dtype.scalar_name} instead."
        )
    return _ldl_solve(LD, pivots, B, hermitian)
