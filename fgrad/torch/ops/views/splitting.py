"""Views of pieces, diagonals and sliding windows, and by strides."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, Ints, extent
from fgrad.mutable.operation.as_strided import AS_STRIDED, split_offset, viewed_geometry
from fgrad.mutable.operation.capture import note_position
from fgrad.mutable.operation.views import ViewOperation, apply_view
from fgrad.mutable.tensor.tensor import Tensor, find_nodes
from fgrad.mutable.types.dtypes import int64
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.table.dispatch import UNLISTED, in_python
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import no_match, types_of
from fgrad.torch.ops.table.signature import checked_ints, is_index, spread_ints
from fgrad.torch.ops.table.table import Array, Dims, SymInt, composite, view
from fgrad.torch.ops.views.views import _select_geometry, _slice_geometry, slice_axis, wrap_dim

# -- diagonals and windows -------------------------------------------------------------------------------------------


def _diagonal_length(rows: int, columns: int, offset: int) -> int:
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _diagonal_geometry(g: Geometry, offset: int, dim1: int, dim2: int) -> Geometry:
    rank = len(g.sizes)
    a, b = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = _diagonal_length(g.sizes[a], g.sizes[b], offset)
    start = (offset * g.strides[b] if offset >= 0 else -offset * g.strides[a]) if length else 0
    rest = [i for i in range(rank) if i not in (a, b)]
    return evolve(
        g,
        sizes=(*(g.sizes[i] for i in rest), length),
        strides=(*(g.strides[i] for i in rest), g.strides[a] + g.strides[b]),
        offset=g.offset + start,
    )


@view("DiagonalBackward0", _diagonal_geometry, passing="copy")
def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal as a view, its axis last."""
    a, b = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    matrices = lax.transpose(input, (*[i for i in range(input.ndim) if i not in (a, b)], a, b))
    *rest, rows, columns = matrices.shape
    flat = lax.reshape(matrices, (*rest, rows * columns))
    length = _diagonal_length(rows, columns, offset)
    start = (offset if offset >= 0 else -offset * columns) if length else 0
    end = start + (length - 1) * (columns + 1) + 1 if length else 0
    return lax.slice_in_dim(flat, start, end, columns + 1, axis=len(rest))


def _unfold_geometry(g: Geometry, dimension: int, size: int, step: int) -> Geometry:
    rank = len(g.sizes)
    axis = wrap_dim(dimension, rank)
    length = g.sizes[axis] if rank else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not rank:
        return evolve(g, sizes=(size,), strides=(1,))
    sizes = (*g.sizes[:axis], (length - size) // step + 1, *g.sizes[axis + 1 :], size)
    return evolve(
        g,
        sizes=sizes,
        strides=(*g.strides[:axis], g.strides[axis] * step, *g.strides[axis + 1 :], g.strides[axis]),
    )


@view("UnfoldBackward0", _unfold_geometry, passing="copy", function=False)
def unfold(input: Array, dimension: int, size: int, step: int) -> Any:
    """Sliding windows along an axis as a view, their axis last."""
    if not input.ndim:
        return lax.reshape(input, (1,))[:size]
    axis = dimension % input.ndim
    count = (input.shape[axis] - size) // step + 1
    indices = jnp.arange(count)[:, None] * step + jnp.arange(size)[None, :]
    if not indices.size:  # NumPy and JAX take nothing from an axis of no elements
        return lax.full((*input.shape[:axis], count, *input.shape[axis + 1 :], size), 0, input.dtype)
    return jnp.moveaxis(jnp.take(input, indices, axis), axis + 1, -1)


_MAX_BYTES = (1 << 63) - 1
#: as long as a vector of PyTorch's can be
_MOST_SECTIONS = _MAX_BYTES >> 3


def checked_strided(input: Tensor, size: Ints, stride: Ints, offset: int) -> Geometry:
    """The geometry of ``as_strided``, if it lies within the storage."""
    note_position()
    _check_examples(input)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    geometry = input._geometry_of()
    storage = input._storage
    itemsize = geometry.dtype.itemsize
    needed = extent(size, stride, offset) * itemsize
    if any(n < 0 for n in size) or needed > _MAX_BYTES:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    available = storage.count * storage.dtype.itemsize
    if needed > available:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {itemsize} "
            f"requiring a storage size of {needed} are out of bounds for storage of size {available}"
        )
    return evolve(geometry, sizes=size, strides=stride, offset=offset)


def _check_examples(tensor: Tensor) -> None:
    """Refuse an example of ``vmap`` that does not lie in memory as it is kept here: alone and contiguous."""
    for level in modes.maps:
        batch = level.batch_behind(tensor)
        if batch is not None and not batch.is_contiguous():
            raise NotImplementedError(
                f"as_strided: this tensor is an example of a batch with strides {list(batch.stride())[1:]}, the "
                "mapped axis aside, and inside vmap examples are contiguous. Take the elements by indexing, or "
                "pass vmap a contiguous batch with its mapped axis first, and the strides of that."
            )


_AS_STRIDED_VIEW = ViewOperation(
    "as_strided",
    AS_STRIDED.function,
    "AsStridedBackward0",
    AS_STRIDED.operands,
    AS_STRIDED.parameters,
    AS_STRIDED.nondiff_operands,
    gradients=AS_STRIDED.gradients,
    geometry=viewed_geometry,
)


@composite(dispatch=UNLISTED)
def as_strided(input: Any, size: Any, stride: Any, storage_offset: SymInt | None = None) -> Tensor:
    """A view of a tensor's storage by sizes, strides and offset."""
    find_nodes((input,))
    base = input._geometry_of()
    offset = base.offset if storage_offset is None else storage_offset
    for name, argument in (("size", size), ("stride", stride)):
        if not isinstance(argument, tuple | list):
            raise TypeError(f"as_strided(): argument '{name}' must be tuple of ints, not {type_name(argument)}")
    sizes, strides = checked_ints(size, "as_strided", "size", 2), checked_ints(stride, "as_strided", "stride", 3)
    geometry = checked_strided(input, sizes, strides, offset)
    start, params = split_offset(base, geometry)
    return apply_view(_AS_STRIDED_VIEW, (input, start), params)


# -- several views ---------------------------------------------------------------------------------------------------


def _unbind_geometry(g: Geometry, dim: int) -> list[Geometry]:
    if not g.sizes:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return [_select_geometry(g, i, dim) for i in range(g.sizes[wrap_dim(dim, len(g.sizes))])]


@view("UnbindBackward0", _unbind_geometry, passing="copy", method=False, function=False)
def _unbind(input: Array, dim: int) -> Any:
    dim = dim % input.ndim
    return tuple(lax.unstack(input, dim))


@composite(out=NOT_TAKEN)
def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, each a view."""
    return tuple(_unbind(input, dim))


def _pieces(size: int, lengths: Sequence[int]) -> list[tuple[int, int]]:
    starts = accumulate(lengths, initial=0)
    return [(start, length) for start, length in zip(starts, lengths, strict=False) if start <= size]


def _split_geometry(g: Geometry, split_sizes: Ints, dim: int) -> list[Geometry]:
    return [_slice_geometry(g, start, dim, length, 1) for start, length in _pieces(g.sizes[dim], split_sizes)]


def _split_values(input: Any, lengths: Ints, dim: int) -> Any:
    return tuple(lax.split(input, [n for _, n in _pieces(input.shape[dim], lengths)], dim))


def _equal_lengths(size: int, split_size: int) -> Ints:
    """The lengths of pieces of ``split_size``, the last maybe shorter."""
    count = max(-(-size // split_size), 1) if split_size else 1
    return tuple([min(split_size, size - i * split_size) for i in range(count)])


def _equal_geometry(g: Geometry, split_size: int, dim: int) -> list[Geometry]:
    return _split_geometry(g, _equal_lengths(g.sizes[dim], split_size), dim)


def _equal_values(input: Any, split_size: int, dim: int) -> Any:
    return _split_values(input, _equal_lengths(input.shape[dim], split_size), dim)


@view("SplitBackward0", _equal_geometry, passing="copy", method=False, function=False)
def _split(input: Array, split_size: int, dim: int) -> Any:
    return _equal_values(input, split_size, dim)


@view("SplitWithSizesBackward0", _split_geometry, passing="copy", method=False, function=False)
def _split_with_sizes(input: Array, split_sizes: Ints, dim: int) -> Any:
    return _split_values(input, split_sizes, dim)


@composite()
def split_with_sizes(input: Any, split_sizes: Dims, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of given lengths along an axis, each a view.

    Raises:
      RuntimeError: a length is negative, or they do not add up to the size of the axis.

    >>> import fgrad.torch as torch
    >>> torch.split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return tuple(_split_with_sizes(input, *checked_lengths(input, split_sizes, dim)))


def _axis_and_size(function: str, input: Tensor, dim: int) -> tuple[int, int]:
    """The non-negative index of an axis, and its size."""
    shape = input._type.shape
    if not shape:
        raise RuntimeError(f"{function} expects at least a 1-dimensional tensor")
    axis = wrap_dim(dim, len(shape))
    return axis, shape[axis]


def checked_lengths(input: Tensor, split_sizes: Sequence[Any], dim: int) -> tuple[Ints, int]:
    """The lengths of the pieces of an axis, and the non-negative axis; or PyTorch's error if they do not fit it."""
    axis, size = _axis_and_size("split", input, dim)
    lengths = tuple([int(n) for n in split_sizes])
    if any(n < 0 for n in lengths):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(lengths)}"
        )
    if sum(lengths) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={list(lengths)}"
        )
    return lengths, axis


def checked_split_size(input: Tensor, split_size: int, dim: int) -> tuple[int, int]:
    """The length of equal pieces of an axis, and the non-negative axis; or PyTorch's error if there are none."""
    axis, size = _axis_and_size("split", input, dim)
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    if split_size == 0 and size:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
    return split_size, axis


def chunk_size(input: Tensor, chunks: int, dim: int) -> int | list[int]:
    """The length of at most ``chunks`` equal pieces; for an empty axis, the lengths of all."""
    _, size = _axis_and_size("chunk", input, dim)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return -(-size // chunks) or [0] * chunks


_CHUNKS = ("Tensor input, int split_size, int dim = 0", "Tensor input, tuple of ints split_size, int dim = 0")


@composite(
    dispatch=in_python(lambda tensor, split_size_or_sections, dim=0: None, method=lambda self, split_size, dim=0: None),
    out=NOT_TAKEN,
)
def split(
    tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Pieces along an axis, each a view."""
    find_nodes((tensor,))
    sections = split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(sections, Tensor) and sections._type.numel == 1:
        sections = int(sections.item())
    if sections.__class__ is bool:
        raise TypeError(no_match("split", types_of((tensor, sections, dim)), _CHUNKS))
    if isinstance(sections, int):
        return tuple(_split(tensor, *checked_split_size(tensor, sections, dim)))
    if not isinstance(sections, tuple | list):
        raise TypeError(
            f"split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not {type_name(sections)}"
        )
    return split_with_sizes(tensor, sections, dim)


@composite(out=NOT_TAKEN)
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal length along an axis, each a view."""
    return split(input, chunk_size(input, chunks, dim), dim)


_TENSOR_SPLITS = (
    "Tensor input, tuple of ints indices, int dim = 0",
    "Tensor input, Tensor tensor_indices_or_sections, int dim = 0",
    "Tensor input, int sections, int dim = 0",
)


@composite(out=NOT_TAKEN)
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces along an axis, given by their number or by the indices of the cuts, each a view."""
    shape = input._type.shape
    if not shape:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    axis = wrap_dim(dim, len(shape))
    size = shape[axis]
    sections = indices_or_sections
    if isinstance(sections, Tensor) and sections._type.dtype is not int64:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            + sections._type.dtype.scalar_name
        )
    if isinstance(sections, Tensor) and len(sections._type.shape) > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {len(sections._type.shape)} dims"
        )
    if isinstance(sections, Tensor | np.integer):
        sections = sections.tolist()
    if sections.__class__ is bool or not isinstance(sections, int | tuple | list):
        raise TypeError(no_match("tensor_split", types_of((input, sections)), _TENSOR_SPLITS))
    if isinstance(sections, int):
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        if sections > _MOST_SECTIONS:
            raise RuntimeError(f"tensor_split: a list of {sections} tensors is larger than the memory")
        length, longer = divmod(size, sections)
        bounds = [0]
        for i in range(sections):
            bounds.append(bounds[-1] + length + (i < longer))
    else:
        bounds = [0, *checked_ints(sections, "tensor_split", "indices_or_sections", 2), size]
    return tuple([slice_axis(input, axis, start, end, 1) for start, end in pairwise(bounds)])


_SPLITS = ("Tensor input, int sections", "Tensor input, tuple of ints indices")


def _split_evenly(function: str, input: Tensor, sections_or_indices: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    """``tensor_split`` of an axis that a number of pieces must divide."""
    sections = int(sections_or_indices) if is_index(sections_or_indices, False) else None
    if (
        sections is None
        and not is_index(sections_or_indices, True)
        and not isinstance(sections_or_indices, tuple | list)
    ):
        raise TypeError(no_match(function, types_of((input, sections_or_indices)), _SPLITS))
    shape = input._type.shape
    if len(shape) < least:
        raise RuntimeError(
            f"torch.{function} requires a tensor with at least {least} dimension, but got a tensor with {len(shape)} "
            "dimensions!"
        )
    if sections is None:
        # one of them may be given by itself, if it is in a tensor
        return tensor_split(input, spread_ints((sections_or_indices,), function, "indices", 2), dim)
    if sections == 0 or shape[dim] % sections:
        raise RuntimeError(
            f"torch.{function} attempted to split along dimension {dim}, but the size of the dimension "
            f"{shape[dim]} is not divisible by the split_size {sections}!"
        )
    return tensor_split(input, sections, dim)


@composite(out=NOT_TAKEN)
def hsplit(input: Array, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along the second axis, or the only one; a number of pieces must divide it."""
    return _split_evenly("hsplit", input, indices_or_sections, 0 if len(input._type.shape) == 1 else 1, 1)


@composite(out=NOT_TAKEN)
def vsplit(input: Array, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along the first axis; a number of pieces must divide it."""
    return _split_evenly("vsplit", input, indices_or_sections, 0, 2)


@composite(out=NOT_TAKEN)
def dsplit(input: Array, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along the third axis; a number of pieces must divide it."""
    return _split_evenly("dsplit", input, indices_or_sections, 2, 3)
