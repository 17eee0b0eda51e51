"""Factors of symmetric matrices that need not be positive-definite: ``A = L D L^T``.

NOTE [Bunch-Kaufman]
``D`` has blocks of one or two rows on its diagonal, and rows are exchanged so that no block is nearly singular.  The
factors stand in one matrix, as LAPACK's ``sytf2`` leaves them.  A pivot ``p > 0`` at ``k`` says that rows ``k`` and
``p`` were exchanged (counted from 1); two equal negative pivots mark a block of two rows, whose second one was
exchanged with row ``-p``.

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
    columns,
    first_failure,
    linalg,
    matrix_columns,
    scalar_name,
)
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Fixed

#: the bound that keeps elements from growing
_ALPHA = (1 + math.sqrt(17)) / 8


def _batched(function: Callable[..., Any], rank: int, *arrays: Any) -> Any:
    """A function of matrices over the ``rank`` axes before them."""
    for _ in range(rank):
        function = jax.vmap(function)
    return function(*arrays)


def _size(x: Any) -> Any:
    """The size of elements as LAPACK compares them."""
    return jnp.abs(jnp.real(x)) + jnp.abs(jnp.imag(x)) if x.dtype.kind == "c" else jnp.abs(x)


def _exchanged(count: int, a: Any, b: Any) -> Any:
    """The order in which two places are exchanged."""
    order = jnp.arange(count)
    return jnp.where(order == a, b, jnp.where(order == b, a, order))


def _inverse_of_two(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """The inverse of ``[[a, b], [c, d]]``."""
    determinant = a * d - b * c
    return d / determinant, -b / determinant, -c / determinant, a / determinant


def _factored(matrix: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """The factors in one matrix, the pivots, and the first column without a pivot: see NOTE [Bunch-Kaufman]."""
    n = matrix.shape[-1]
    if not n:
        return matrix, jnp.zeros(0, np.int32), jnp.zeros((), np.int32)
    places = jnp.arange(n)
    lower = jnp.tril(matrix, -1)
    diagonal = jnp.diagonal(matrix)
    conjugate = jnp.conj if hermitian else lambda x: x
    if hermitian:
        diagonal = jnp.real(diagonal).astype(matrix.dtype)
    full = lower + conjugate(lower).T + jnp.diag(diagonal)

    def advance(k: Any, state: Any) -> Any:
        before, pivots, info, begins = state
        full = before
        below = jnp.where(places > k, _size(full[:, k]), 0)
        largest, row = jnp.max(below), jnp.argmax(below)
        own = _size(full[k, k])
        beside = jnp.max(jnp.where((places >= k) & (places != row), _size(full[row]), 0))
        nothing = jnp.maximum(own, largest) == 0
        stays = nothing | (own >= _ALPHA * largest) | (own * beside >= _ALPHA * largest * largest)
        single = stays | (_size(full[row, row]) >= _ALPHA * beside)
        chosen = jnp.where(stays, k, row)
        last = jnp.where(single, k, k + 1)
        order = _exchanged(n, last, chosen)
        trailing = (places[:, None] >= k) & (places[None, :] >= k)
        full = jnp.where(trailing, full[order][:, order], full)
        # the columns of the block, below it, and times the block's inverse
        second = jnp.minimum(k + 1, n - 1)
        one, two = (jnp.where(places > last, full[:, at], 0) for at in (k, second))
        alone = one / jnp.where(nothing, 1, full[k, k])
        a, b, c, d = _inverse_of_two(full[k, k], full[k, second], full[second, k], full[second, second])
        left = jnp.where(single, alone, one * a + two * c)
        right = jnp.where(single, 0, one * b + two * d)
        two = jnp.where(single, 0, two)
        full = full - left[:, None] * conjugate(one)[None, :] - right[:, None] * conjugate(two)[None, :]
        full = full.at[:, k].set(jnp.where(places > last, left, full[:, k]))
        column = jnp.where(~single & (places > last), right, full[:, second])
        full = full.at[:, second].set(column)
        pivot = jnp.where(single, chosen + 1, -(chosen + 1))
        # the second row of a block has been dealt with
        here = begins == k
        pivots = jnp.where(here & (places >= k) & (places <= last), pivot, pivots)
        info = jnp.where(here & (info == 0) & nothing, k + 1, info)
        return jnp.where(here, full, before), pivots, info, jnp.where(here, last + 1, begins)

    begin = (full, jnp.zeros(n, np.int64), jnp.zeros((), np.int64), jnp.zeros((), np.int64))
    full, pivots, info, _ = lax.fori_loop(0, n, advance, begin)
    if hermitian:
        full = jnp.where(jnp.eye(n, dtype=bool), jnp.real(full).astype(full.dtype), full)
    return jnp.tril(full), pivots.astype(np.int32), info.astype(np.int32)


def _solved(factors: Any, pivots: Any, right: Any, hermitian: bool) -> Any:
    """The solution of a system from what ``_factored`` found."""
    n = factors.shape[-1]
    if not n:
        return right
    places = jnp.arange(n)[:, None]
    conjugate = jnp.conj if hermitian else lambda x: x

    def column(at: Any, last: Any) -> Any:
        return jnp.where(places > last, factors[:, at][:, None], 0)

    def down(k: Any, state: Any) -> Any:
        before, begins = state
        single = pivots[k] > 0
        last = jnp.where(single, k, k + 1)
        second = jnp.minimum(k + 1, n - 1)
        x = before[_exchanged(n, last, jnp.abs(pivots[k]) - 1)]
        x = x - column(k, last) * x[k] - jnp.where(single, 0, column(second, last) * x[second])
        off = factors[second, k]
        a, b, c, d = _inverse_of_two(factors[k, k], conjugate(off), off, factors[second, second])
        first, other = x[k], x[second]
        x = x.at[second].set(jnp.where(single, other, c * first + d * other))
        x = x.at[k].set(jnp.where(single, first / factors[k, k], a * first + b * other))
        here = begins == k
        return jnp.where(here, x, before), jnp.where(here, last + 1, begins)

    def up(i: Any, state: Any) -> Any:
        before, ends = state
        last = n - 1 - i
        single = pivots[last] > 0
        x = before
        for at, there in ((last, True), (jnp.maximum(last - 1, 0), ~single)):
            x = x.at[at].set(x[at] - jnp.where(there, jnp.sum(conjugate(column(at, last)) * x, 0), 0))
        x = x[_exchanged(n, last, jnp.abs(pivots[last]) - 1)]
        here = ends == last
        return jnp.where(here, x, before), jnp.where(here, jnp.where(single, last - 1, last - 2), ends)

    x, _ = lax.fori_loop(0, n, down, (right, jnp.zeros((), np.int64)))
    return lax.fori_loop(0, n, up, (x, jnp.full((), n - 1, np.int64)))[0]


@overload(
    "linalg_ldl_factor_ex", NOT_IMPLEMENTED, strides=matrix_columns, outputs=("LD", "pivots", "info"),
)  # fmt: skip
def _ldl_factor_ex(input: Array, hermitian: bool) -> Any:
    check_square("torch.linalg.ldl_factor_ex", input)
    if input.dtype.kind in "fcbiu":
        check_inexact("torch.linalg.ldl_factor_ex", input, half=True)
    if input.dtype.itemsize < 4:
        raise NotImplementedError(f"\"ldl_factor_kernel_cpu\" not implemented for '{scalar_name(input)}'")
    by_conjugates = hermitian and input.dtype.kind == "c"
    return _batched(lambda x: _factored(x, by_conjugates), input.ndim - 2, input)


@linalg()
def ldl_factor_ex(A: Array, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """The factors of a symmetric matrix in one matrix, the pivots, and 0, or which column has no pivot.

    Arguments:
      A: a symmetric matrix, or a batch of them; what is above the diagonal is not read.
      hermitian: whether complex matrices are Hermitian rather than symmetric.
      check_errors: whether an error is raised if there is a column without a pivot.

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
    found = return_types.linalg_ldl_factor_ex(apply(_ldl_factor_ex.operation, (A,), (hermitian,)))
    failure = first_failure(found.info) if check_errors else None
    if failure is not None:
        raise RuntimeError(f"{function}: {failure[0]}column {failure[1]} has no pivot: the matrix is singular")
    return found


@linalg()
def ldl_factor(A: Array, *, hermitian: bool = False) -> Any:
    """The factors of a symmetric matrix in one matrix, and the pivots: ``ldl_factor_ex`` with its errors checked.

    >>> import fgrad.torch as torch
    >>> torch.linalg.ldl_factor(torch.tensor([[4., 2.], [2., 3.]])).pivots
    tensor([1, 2], dtype=torch.int32)

    Source: `torch.linalg.ldl_factor <https://docs.pytorch.org/docs/2.13/generated/torch.linalg.ldl_factor.html>`_.
    """
    return return_types.linalg_ldl_factor(_checked("torch.linalg.ldl_factor", A, hermitian, True)[:2])


@overload("linalg_ldl_solve", NOT_IMPLEMENTED, strides=columns)
def _ldl_solve(input: Array, pivots: Fixed, B: Array, hermitian: bool) -> Any:
    shape = jnp.broadcast_shapes(input.shape[:-2], B.shape[:-2])
    by_conjugates = hermitian and input.dtype.kind == "c"
    given = [jnp.broadcast_to(x, shape + x.shape[-k:]) for x, k in ((input, 2), (pivots, 1), (B, 2))]
    return _batched(lambda ld, p, b: _solved(ld, p, b, by_conjugates), len(shape), *given)


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
        rows, wide = LD.shape[-1], tuple(B.shape[-2:])
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {rows} by {rows} but each b "
            f"matrix is {wide[0]} by {wide[1]}"
        )
    if B.dtype is not LD.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{B.dtype.scalar_name} and A of type {LD.dtype.scalar_name} instead."
        )
    return _ldl_solve(LD, pivots, B, hermitian)
