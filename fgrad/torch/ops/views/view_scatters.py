"""Copies of a tensor with the elements of a view replaced: ``select_scatter``, ``slice_scatter`` and others."""

import math
from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.operation.as_strided import AS_STRIDED_SCATTER, split_offset
from fgrad.mutable.operation.operands import cast, number_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy
from fgrad.torch.ops.creation.copying import as_first, fill_
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Number, SymInt, composite
from fgrad.torch.ops.views.splitting import _diagonal_geometry, as_strided, checked_strided
from fgrad.torch.ops.views.views import _select_geometry, _slice_geometry, wrap_dim


def _check(src: Any, shape: tuple[int, ...]) -> None:
    if tuple(src.shape) != shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(shape)}"
        )


def _like(src: Any, input: Any) -> Any:
    return cast(src, from_numpy(input.dtype))


@overload("select_scatter", "SelectScatterBackward0", strides=as_first, gradient_views={"src": _select_geometry})
def _select_scatter(input: Array, src: Array, index: Number, dim: int) -> Any:
    _check(src, (*input.shape[:dim], *input.shape[dim + 1 :]))
    return lax.dynamic_update_index_in_dim(input, _like(src, input), index, dim)


@overloaded()
def select_scatter(input: Array, src: Array, dim: int, index: SymInt) -> Choice:
    """A copy with ``input.select(dim, index)`` replaced by ``src``.

    >>> import fgrad.torch as torch
    >>> torch.zeros(2, 2).select_scatter(torch.ones(2), 0, 0)
    tensor([[1., 1.],
            [0., 0.]])

    Source: `torch.select_scatter <https://docs.pytorch.org/docs/stable/generated/torch.select_scatter.html>`_.
    """
    shape = input._type.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    return _select_scatter, input, src, index % shape[dim], dim


def _part_geometry(g: Geometry, start: int, end: int, dim: int, step: int) -> Geometry:
    return _slice_geometry(g, start, dim, len(range(start, end, step)), step)


@overload("slice_scatter", "SliceScatterBackward0", strides=as_first, gradient_views={"src": _part_geometry})
def _slice_scatter(input: Array, src: Array, start: Number, end: Number, dim: int, step: int) -> Any:
    length, src = src.shape[dim], _like(src, input)
    if not length:
        return input
    if step > 1:
        # the elements in between are kept
        size = (length - 1) * step + 1
        index = (*[slice(None)] * dim, slice(None, None, step))
        src = lax.dynamic_slice_in_dim(input, start, size, dim).at[index].set(src)
    return lax.dynamic_update_slice_in_dim(input, src, start, dim)


@overloaded()
def slice_scatter(
    input: Array, src: Array, dim: int = 0, start: SymInt | None = None, end: SymInt | None = None, step: SymInt = 1
) -> Choice:
    """A copy with ``input[start:end:step]`` along an axis replaced by ``src``.

    Source: `torch.slice_scatter <https://docs.pytorch.org/docs/stable/generated/torch.slice_scatter.html>`_.
    """
    dim = wrap_dim(dim, len(input._type.shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    shape = input._type.shape
    first, last, _ = slice(start, end).indices(shape[dim])
    _check(src._type, (*shape[:dim], len(range(first, last, step)), *shape[dim + 1 :]))
    return _slice_scatter, input, src, first, last, dim, step


@overload("diagonal_scatter", "DiagonalScatterBackward0", strides=as_first, gradient_views={"src": _diagonal_geometry})
def _diagonal_scatter(input: Array, src: Array, offset: int, dim1: int, dim2: int) -> Any:
    last = jnp.moveaxis(input, (dim1, dim2), (-2, -1))
    rows, columns = last.shape[-2:]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    _check(src, (*last.shape[:-2], length))
    if not src.size:
        return input
    indices = jnp.arange(length)
    replaced = last.at[..., indices + max(0, -offset), indices + max(0, offset)].set(
        _like(src, input), mode="promise_in_bounds", unique_indices=True
    )
    return jnp.moveaxis(replaced, (-2, -1), (dim1, dim2))


@overloaded(out=NOT_TAKEN)
def diagonal_scatter(input: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Choice:
    """A copy with a diagonal replaced by ``src``.

    Source: `torch.diagonal_scatter <https://docs.pytorch.org/docs/stable/generated/torch.diagonal_scatter.html>`_.
    """
    rank = len(input._type.shape)
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _diagonal_scatter, input, src, offset, first, second


@composite()
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: SymInt | None = None) -> Tensor:
    """A copy with the elements that ``as_strided`` names replaced by ``src``.

    Source: `torch.as_strided_scatter <https://docs.pytorch.org/docs/stable/generated/torch.as_strided_scatter.html>`_.
    """
    base = input._geometry_of()
    offset = base.offset if storage_offset is None else int(storage_offset)
    part = checked_strided(input, tuple(map(int, size)), tuple(map(int, stride)), offset)
    _check(src._type, part.sizes)
    start, params = split_offset(base, part)
    return apply(AS_STRIDED_SCATTER, (input, src.to(input._type.dtype), start), params)


@composite(function=False)
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal; with ``wrap``, also to the one that restarts below in a tall matrix.

    Source: `torch.Tensor.fill_diagonal_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.fill_diagonal_.html>`_.
    """
    fill_value = number_of("fill_diagonal_", "fill_value", fill_value)
    geometry = self._geometry_of()
    rank = len(geometry.sizes)
    if rank < 2:
        raise RuntimeError("dimensions must larger than 1")
    if rank > 2 and len(set(geometry.sizes)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    step = sum(geometry.strides)
    fill_(as_strided(self, (min(geometry.sizes),), (step,), geometry.offset), fill_value)
    rows, columns = geometry.sizes[0], math.prod(geometry.sizes[1:])
    if wrap and rank == 2 and rows > columns + 1:
        below = columns + 1
        length = (rows * columns - below * columns + columns) // (columns + 1)
        start = geometry.offset + below * geometry.strides[0]
        fill_(as_strided(self, (length,), (step,), start), fill_value)
    return self
