"""Triangles and diagonals of matrices."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.overlap import in_order
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch.ops.creation.creation import empty
from fgrad.torch.ops.creation.making import tensor_from_array
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import IN_PYTHON, UNLISTED
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, Arrays, Integer, composite, operation
from fgrad.torch.ops.views.reshaping import check_tensors
from fgrad.torch.ops.views.splitting import _diagonal_geometry
from fgrad.torch.ops.views.views import reshape, wrap_dim


def _check_matrix(function: str, array: Any) -> None:
    if array.ndim < 2:
        raise RuntimeError(f"{function}: input tensor must have at least 2 dimensions")


def _diagonals(array: Any) -> tuple[Any, Any]:
    """The numbers of the rows, in a column, and those of the columns, in a row."""
    rows, columns = (lax.iota(np.int64, n) for n in array.shape[-2:])
    return lax.expand_dims(rows, (1,)), lax.expand_dims(columns, (0,))


@operation("TrilBackward0", inplace=True, overlap=in_order)
def tril(input: Array, diagonal: Integer = 0) -> Any:
    """Matrices with zeros above a diagonal.

    Source: `torch.tril <https://docs.pytorch.org/docs/stable/generated/torch.tril.html>`_.
    """
    _check_matrix("tril", input)
    rows, columns = _diagonals(input)
    return choose(columns <= rows + diagonal, input, jnp.zeros_like(input))


@operation("TriuBackward0", inplace=True, overlap=in_order)
def triu(input: Array, diagonal: Integer = 0) -> Any:
    """Matrices with zeros below a diagonal.

    Source: `torch.triu <https://docs.pytorch.org/docs/stable/generated/torch.triu.html>`_.
    """
    _check_matrix("triu", input)
    rows, columns = _diagonals(input)
    return choose(columns >= rows + diagonal, input, jnp.zeros_like(input))


def _triangle(function: str, row: int, col: int, offset: int, dtype: Any, device: Any, indices_of: Any) -> Tensor:
    if row < 0 or col < 0:
        which = ("row", row) if row < 0 else ("col", col)
        raise RuntimeError(f"{which[0]} must be non-negative, got{which[1]}")
    element_type = dtypes.int64 if dtype is None else dtypes.argument(dtype, function)
    if element_type not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"\"{function}\" not implemented for '{element_type.scalar_name}'")
    return tensor_from_array(np.stack(indices_of(row, offset, col)), element_type, device)


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """The row and column indices of a lower triangle.

    Source: `torch.tril_indices <https://docs.pytorch.org/docs/stable/generated/torch.tril_indices.html>`_.
    """
    return _triangle("tril_indices", row, col, offset, dtype, device, np.tril_indices)


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """The row and column indices of an upper triangle.

    Source: `torch.triu_indices <https://docs.pytorch.org/docs/stable/generated/torch.triu_indices.html>`_.
    """
    return _triangle("triu_indices", row, col, offset, dtype, device, np.triu_indices)


@operation("TraceBackward0", autocast="fp32", out=NOT_TAKEN)
def trace(input: Array) -> Any:
    """The sum of the diagonal of a matrix.

    Source: `torch.trace <https://docs.pytorch.org/docs/stable/generated/torch.trace.html>`_.
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    check_kinds("trace", "ifc", input)
    return jnp.sum(jnp.diagonal(input), dtype=np.int64 if input.dtype.kind in "biu" else None)


# -- diagonals -------------------------------------------------------------------------------------------------------


@operation("DiagEmbedBackward0", gradient_views={"self": _diagonal_geometry}, out=NOT_TAKEN)
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last axis as a diagonal, and zeros elsewhere.

    Source: `torch.diag_embed <https://docs.pytorch.org/docs/stable/generated/torch.diag_embed.html>`_.
    """
    rank = input.ndim + 1
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    indices = jnp.arange(input.shape[-1])
    matrices = jnp.zeros((*input.shape[:-1], size, size), input.dtype)
    matrices = matrices.at[..., indices + max(-offset, 0), indices + max(offset, 0)].set(
        input, mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True
    )
    return jnp.moveaxis(matrices, (-2, -1), (first, second))


@operation("DiagonalBackward0_copy", method=False, function=False)
def _diagonal_copy(input: Array, offset: int, dim1: int, dim2: int) -> Any:
    return jnp.diagonal(input, offset, dim1, dim2)


@composite()
def diag(input: Array, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with a vector as its diagonal.

    Source: `torch.diag <https://docs.pytorch.org/docs/stable/generated/torch.diag.html>`_.
    """
    rank = len(input._type.shape)
    if rank not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    return diag_embed(input, diagonal) if rank == 1 else _diagonal_copy(input, diagonal, 0, 1)


@composite(out=NOT_TAKEN)
def diagflat(input: Array, offset: int = 0) -> Tensor:
    """A matrix with all elements of the tensor on a diagonal.

    Source: `torch.diagflat <https://docs.pytorch.org/docs/stable/generated/torch.diagflat.html>`_.
    """
    return diag_embed(reshape(input, (-1,)), offset)


@operation("BlockDiagBackward0", name="_block_diag", method=False, function=False)
def _blocks(tensors: Arrays) -> Any:
    arrays: Any = tensors
    shapes = [(1,) * (2 - x.ndim) + x.shape for x in arrays]
    columns = sum(n for _, n in shapes)
    rows, before = [], 0
    dtype = jnp.result_type(*[x.dtype for x in arrays])
    for x, (m, n) in zip(arrays, shapes, strict=True):
        row = lax.reshape(x, (m, n)).astype(dtype)
        parts = [jnp.zeros((m, before), dtype), row, jnp.zeros((m, columns - before - n), dtype)]
        rows.append(lax.concatenate(parts, 1))
        before += n
    return lax.concatenate(rows, 0)


@composite(method=False, dispatch=IN_PYTHON)
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with matrices along its diagonal, and zeros elsewhere.

    Source: `torch.block_diag <https://docs.pytorch.org/docs/stable/generated/torch.block_diag.html>`_.
    """
    check_tensors(tensors)
    if not tensors:
        return empty(1, 0)
    for i, tensor in enumerate(tensors):
        if len(tensor._type.shape) > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{i} has {len(tensor._type.shape)} dimensions"
            )
    return _blocks(list(tensors))


@composite(method=False, dispatch=UNLISTED, out=NOT_TAKEN)
def vander(x: Array, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix of the powers of a vector's elements.

    Source: `torch.vander <https://docs.pytorch.org/docs/stable/generated/torch.vander.html>`_.
    """
    if len(x._type.shape) != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x._type.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    return _powers(x if x._type.inexact else x.to(dtypes.int64), count, increasing)


@operation("FlipBackward0", name="_vander", method=False, function=False)
def _powers(input: Array, count: int, increasing: bool) -> Any:
    one = lax.full_like(input[:, None], 1)
    if count == 0:
        return jnp.zeros((input.shape[0], 0), input.dtype)
    factors = jnp.concatenate([one, jnp.broadcast_to(input[:, None], (input.shape[0], count - 1))], 1)
    powers = lax.cumprod(factors, 1)
    return powers if increasing else lax.rev(powers, (1,))
