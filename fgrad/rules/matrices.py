"""Small matrix algebra in ``lax`` functions, for the rules of solves and decompositions.

All take stacks of matrices (any number of leading batch dimensions), and all are linear or bilinear, so that rules
written with them can be transposed.
"""

from typing import Any

import numpy as np
from jax import lax


def t(x: Any) -> Any:
    """The transpose of the last two dimensions."""
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def conj(x: Any) -> Any:
    """The complex conjugate; a real ``x`` stays as it is (``lax.conj`` would make it complex)."""
    return lax.conj(x) if np.issubdtype(x.dtype, np.complexfloating) else x


def h(x: Any) -> Any:
    """The conjugate transpose."""
    return conj(t(x))


def real(x: Any) -> Any:
    return lax.real(x) if np.issubdtype(x.dtype, np.complexfloating) else x


def matmul(x: Any, y: Any) -> Any:
    """The product of stacks of matrices, at full precision: a factorization is worth little at less."""
    batch = tuple(range(x.ndim - 2))
    dims = (((x.ndim - 1,), (y.ndim - 2,)), (batch, batch))
    return lax.dot_general(x, y, dims, precision=lax.Precision.HIGHEST)


def _offsets(shape: tuple[int, ...]) -> Any:
    """Column minus row, for each entry."""
    return lax.sub(
        lax.broadcasted_iota(np.int32, shape, len(shape) - 1), lax.broadcasted_iota(np.int32, shape, len(shape) - 2)
    )


def tril(x: Any, k: int = 0) -> Any:
    """``x`` with zeros above diagonal ``k``; what stood there is not looked at, even if it is not finite."""
    return lax.select(lax.le(_offsets(x.shape), np.int32(k)), x, lax.full_like(x, 0))


def triu(x: Any, k: int = 0) -> Any:
    """``x`` with zeros below diagonal ``k``."""
    return lax.select(lax.ge(_offsets(x.shape), np.int32(k)), x, lax.full_like(x, 0))


def eye(x: Any) -> Any:
    """Identity matrices of the shape and dtype of ``x``, which need not be square."""
    return lax.select(lax.eq(_offsets(x.shape), np.int32(0)), lax.full_like(x, 1), lax.full_like(x, 0))


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    only = lax.select(lax.eq(_offsets(x.shape), np.int32(0)), x, lax.full_like(x, 0))
    return lax.reduce_sum(only, (x.ndim - 1,))


def halve_diagonal(x: Any) -> Any:
    half = lax.mul(x, lax.full_like(x, 0.5))
    return lax.select(lax.eq(_offsets(x.shape), np.int32(0)), half, x)


def as_rows(v: Any, like: Any) -> Any:
    """The matrix, shaped as ``like``, with each row equal to the vector ``v``: its entries belong to columns."""
    return lax.broadcast_in_dim(v, like.shape, (*range(v.ndim - 1), like.ndim - 1))


def as_columns(v: Any, like: Any) -> Any:
    """The matrix, shaped as ``like``, with each column equal to the vector ``v``: its entries belong to rows."""
    return lax.broadcast_in_dim(v, like.shape, tuple(range(v.ndim)))


def block(x: Any, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None) -> Any:
    """A range of rows and of columns."""
    if rows is not None:
        x = lax.slice_in_dim(x, *rows, axis=-2)
    return x if columns is None else lax.slice_in_dim(x, *columns, axis=-1)


def stack_rows(*parts: Any) -> Any:
    return lax.concatenate(parts, parts[0].ndim - 2)


def stack_columns(*parts: Any) -> Any:
    return lax.concatenate(parts, parts[0].ndim - 1)


def take_rows(x: Any, indices: Any) -> Any:
    """``x[..., indices, :]``, with indices of its own for each matrix of the stack."""
    batch = tuple(range(x.ndim - 2))
    row = x.ndim - 2
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(x.ndim - 1,),
        collapsed_slice_dims=(row,),
        start_index_map=(row,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )
    sizes = (*(1 for _ in batch), 1, x.shape[-1])
    starts = lax.expand_dims(indices, (indices.ndim,))
    return lax.gather(x, starts, numbers, sizes, unique_indices=True, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def solve(a: Any, b: Any) -> Any:
    """``a^-1 b`` by the LU decomposition."""
    lu, _pivots, permutation = lax.linalg.lu(a)
    y = lax.linalg.triangular_solve(lu, take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(lu, y, left_side=True, lower=False)
