"""Joining tensors: ``cat``, ``stack`` and functions made of them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.joins import Join, Piece
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.operation.output_strides import is_channels_last, laid_out_in
from fgrad.mutable.tensor.tensor import Tensor, find_nodes
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.table.broadcasting import common
from fgrad.torch.ops.table.outputs import JOINED
from fgrad.torch.ops.table.table import Arrays, composite, operation, operation_of, run_into
from fgrad.torch.ops.views.reshaping import atleast_1d, atleast_2d, atleast_3d, check_tensors
from fgrad.torch.ops.views.views import reshape, wrap_dim


def checked_sequence(function: str, tensors: Any) -> Sequence[Tensor]:
    """A sequence of tensors.

    Raises:
      TypeError: it is not a sequence, or an element is not a tensor.
    """
    if not isinstance(tensors, tuple | list):
        raise TypeError(
            f"{function}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type_name(tensors)}"
        )
    check_tensors(tensors)
    find_nodes(tensors)
    return tensors


def _apply(op: Operation, tensors: Sequence[Tensor], dim: int, out: Tensor | None) -> Tensor:
    return apply(op, tensors, (dim,)) if out is None else run_into(op.name, op, tensors, (dim,), out)


def _is_joined(shape: Ints) -> bool:
    """Whether ``cat`` joins a tensor of this shape; PyTorch skips empty vectors, whatever the other shapes."""
    return shape != (0,)


def _joined_strides(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``channels_last`` if all tensors have their axes in that order, dense or not."""
    if len(shape) not in (4, 5) or any(x._geometry is None and x._storage.strides is None for x in operands):
        return None
    geometries = [x._geometry_of() for x in operands]
    if any(len(g.sizes) != len(shape) or g.contiguous or not is_channels_last(g) for g in geometries):
        return None
    return laid_out_in((0, *range(2, len(shape)), 1), shape)


def _cat_of_many(types: Sequence[Any], dim: int) -> Join | None:
    shapes = [t.shape for t in types]
    if not _have_one_dtype(types) or any(not _is_joined(shape) for shape in shapes):
        return None
    lengths = [shape[dim] for shape in shapes]
    ends = list(accumulate(lengths))
    first = shapes[0]
    return Join(
        (*first[:dim], ends[-1], *first[dim + 1 :]),
        lambda values: np.concatenate(values, dim),
        tuple([Piece(dim, end - length, length) for end, length in zip(ends, lengths, strict=True)]),
    )


@operation(
    "CatBackward0",
    name="_cat",
    error_name="cat",
    many=_cat_of_many,
    promote=common,
    strides=_joined_strides,
    passing="alias",
    method=False,
    function=False,
)
def _cat(tensors: Arrays, dim: int) -> Any:
    parts = [x for x in tensors if _is_joined(x.shape)]  # type: ignore[attr-defined]
    return lax.concatenate(parts, dim) if parts else tensors[0]  # type: ignore[index]


def _have_one_dtype(types: Sequence[Any]) -> bool:
    return all(t.dtype is types[0].dtype for t in types)


_CAT = operation_of(_cat)


@composite(method=False, autocast="promote", out=JOINED)
def cat(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Tensor:
    """Tensors concatenated along an existing axis.

    >>> import fgrad.torch as torch
    >>> torch.cat([torch.zeros(2), torch.ones(1)])
    tensor([0., 0., 1.])

    Source: `torch.cat <https://docs.pytorch.org/docs/stable/generated/torch.cat.html>`_.
    """
    tensors = checked_sequence("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    shapes = [x._type.shape for x in tensors]
    if () in shapes:
        raise RuntimeError(f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated")
    first = next(filter(_is_joined, shapes), None)
    # empty vectors alone may be joined along any axis
    dim = 0 if first is None else wrap_dim(dim if axis is None else axis, len(first))
    for i, shape in enumerate(shapes):
        if first is None or not _is_joined(shape):
            continue
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, (n, m) in enumerate(zip(first, shape, strict=True)):
            if d != dim and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got size {m} for "
                    f"tensor number {i} in the list."
                )
    return _apply(_CAT, tensors, dim, out)


@composite(method=False)
def concat(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Tensor:
    """``cat`` by another name."""
    return cat(tensors, dim, out=out, axis=axis)


@composite(method=False)
def concatenate(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Tensor:
    """``cat`` by another name."""
    return cat(tensors, dim, out=out, axis=axis)


def _stack_of_many(types: Sequence[Any], dim: int) -> Join | None:
    if not _have_one_dtype(types):
        return None
    shape = types[0].shape
    return Join(
        (*shape[:dim], len(types), *shape[dim:]),
        lambda values: np.stack(values, dim),
        tuple([Piece(dim, i, None) for i in range(len(types))]),
    )


@operation(
    "StackBackward0",
    name="_stack",
    error_name="stack",
    many=_stack_of_many,
    promote=common,
    passing="view",
    method=False,
    function=False,
)
def _stack(tensors: Arrays, dim: int) -> Any:
    return jnp.stack(tensors, dim)  # type: ignore[arg-type]


_STACK = operation_of(_stack)


@composite(method=False, autocast="promote", out=JOINED)
def stack(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Tensor:
    """Tensors of one shape stacked along a new axis.

    >>> import fgrad.torch as torch
    >>> torch.stack([torch.zeros(2), torch.ones(2)], dim=1)
    tensor([[0., 1.],
            [0., 1.]])

    Source: `torch.stack <https://docs.pytorch.org/docs/stable/generated/torch.stack.html>`_.
    """
    tensors = checked_sequence("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]._type.shape
    dim = wrap_dim(dim if axis is None else axis, len(first) + 1)
    for i, x in enumerate(tensors):
        if x._type.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(x._type.shape)} at entry {i}"
            )
    return _apply(_STACK, tensors, dim, out)


def _nonempty(function: str, tensors: Any) -> Sequence[Tensor]:
    sequence = checked_sequence(function, tensors)
    if not sequence:
        raise RuntimeError(f"{function} expects a non-empty TensorList")
    return sequence


@composite(method=False)
def hstack(tensors: Any, *, out: Any = None) -> Tensor:
    """Tensors concatenated horizontally: vectors along their axis, others along the second.

    Source: `torch.hstack <https://docs.pytorch.org/docs/stable/generated/torch.hstack.html>`_.
    """
    parts = atleast_1d(*_nonempty("hstack", tensors), as_tuple=True)
    return cat(parts, 0 if len(parts[0]._type.shape) == 1 else 1, out=out)


@composite(method=False)
def vstack(tensors: Any, *, out: Any = None) -> Tensor:
    """Tensors concatenated vertically, with vectors as rows.

    Source: `torch.vstack <https://docs.pytorch.org/docs/stable/generated/torch.vstack.html>`_.
    """
    return cat(atleast_2d(*_nonempty("vstack", tensors), as_tuple=True), 0, out=out)


@composite(method=False)
def row_stack(tensors: Any, *, out: Any = None) -> Tensor:
    """``vstack`` by another name."""
    return vstack(tensors, out=out)


@composite(method=False)
def dstack(tensors: Any, *, out: Any = None) -> Tensor:
    """Tensors concatenated in depth, along the third axis.

    Source: `torch.dstack <https://docs.pytorch.org/docs/stable/generated/torch.dstack.html>`_.
    """
    return cat(atleast_3d(*_nonempty("dstack", tensors), as_tuple=True), 2, out=out)


@composite(method=False)
def column_stack(tensors: Any, *, out: Any = None) -> Tensor:
    """Tensors concatenated horizontally, with vectors as columns.

    Source: `torch.column_stack <https://docs.pytorch.org/docs/stable/generated/torch.column_stack.html>`_.
    """
    sequence = _nonempty("column_stack", tensors)
    return hstack([reshape(x, x._type.numel, 1) if len(x._type.shape) < 2 else x for x in sequence], out=out)


@operation(NOT_IMPLEMENTED, method=False)
def _chunk_cat(tensors: Arrays, dim: int, num_chunks: int) -> Any:
    """Tensors cut into chunks along an axis, padded with zeros, and those of the same number flattened and joined."""
    arrays: Sequence[Any] = tensors
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if not arrays:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    ranks = {x.ndim for x in arrays}
    for x in arrays:
        if not x.size:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if x.dtype != arrays[0].dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
    if len(ranks) == 1:
        dim = wrap_dim(dim, *ranks)
    elif dim < 0:
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    elif dim >= min(ranks):
        raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
    before = arrays[0].shape[:dim]
    if any(x.shape[:dim] != before for x in arrays):
        raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
    chunks = []
    for x in arrays:
        missing = -x.shape[dim] % num_chunks
        padded = jnp.pad(x, [(0, missing if axis == dim else 0) for axis in range(x.ndim)])
        chunks.append(padded.reshape(*before, num_chunks, -1))
    return jnp.concatenate(chunks, -1)
