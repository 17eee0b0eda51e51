"""Splits whose pieces share memory but are not views for autograd: see NOTE [Unsafe pieces].

NOTE [Unsafe pieces]
A piece has a version counter of its own and no base, so a write to it is an ordinary one: its node does not become
``CopySlices``, and saved values of the input or of other pieces are not checked.  It is for results that nothing else
refers to, such as the gates of a recurrent cell.
"""

from typing import Any

from fgrad.mutable.operation.views import cut_from_base
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, SymInt, composite, view
from fgrad.torch.ops.views.splitting import (
    _equal_geometry,
    _equal_values,
    _split_geometry,
    _split_values,
    checked_lengths,
    checked_split_size,
    chunk_size,
)


@view("UnsafeSplitBackward0", _equal_geometry, passing="copy", method=False, function=False)
def _unsafe_split(input: Array, split_size: int, dim: int) -> Any:
    return _equal_values(input, split_size, dim)


@view("UnsafeSplitWithSizesBackward0", _split_geometry, passing="copy", method=False, function=False)
def _unsafe_split_with_sizes(input: Array, split_sizes: tuple[int, ...], dim: int) -> Any:
    return _split_values(input, split_sizes, dim)


@composite(out=NOT_TAKEN)
def unsafe_split(input: Any, split_size: SymInt, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of length ``split_size`` along an axis, the last maybe shorter, which autograd does not treat as views.

    Raises:
      RuntimeError: ``split_size`` is negative, or zero where the axis is not.

    >>> import fgrad.torch as torch
    >>> torch.unsafe_split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))

    Source: `torch.unsafe_split <https://docs.pytorch.org/docs/2.13/generated/torch.unsafe_split.html>`_.
    """
    return tuple(map(cut_from_base, _unsafe_split(input, *checked_split_size(input, split_size, dim))))


@composite()
def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of given lengths along an axis, which autograd does not treat as views.

    Raises:
      RuntimeError: a length is negative, or they do not add up to the size of the axis.

    >>> import fgrad.torch as torch
    >>> torch.unsafe_split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return tuple(map(cut_from_base, _unsafe_split_with_sizes(input, *checked_lengths(input, split_sizes, dim))))


@composite(out=NOT_TAKEN)
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal length along an axis, which autograd does not treat as views.

    Raises:
      RuntimeError: ``chunks`` is not positive.

    >>> import fgrad.torch as torch
    >>> torch.unsafe_chunk(torch.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))

    Source: `torch.unsafe_chunk <https://docs.pytorch.org/docs/2.13/generated/torch.unsafe_chunk.html>`_.
    """
    size = chunk_size(input, chunks, dim)
    return unsafe_split(input, size, dim) if isinstance(size, int) else unsafe_split_with_sizes(input, size, dim)
