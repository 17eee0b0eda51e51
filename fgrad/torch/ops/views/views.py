"""View operations: what each does to a geometry, and what it does to values.

Longer than most files: views that select and views that reshape are used together, and apart they would be one more
file to read at each import.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Geometry, Ints, viewed_strides
from fgrad.mutable.operation.views import cut_from_base
from fgrad.mutable.tensor.tensor import Tensor, alias, find_nodes
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import bool_, dtype as Dtype
from fgrad.mutable.types.type_names import tensor_type_name, type_name
from fgrad.torch.ops.table.dispatch import METHOD_IN_PYTHON, Dispatch
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.signature import check_unexpected, spread_ints
from fgrad.torch.ops.table.table import Array, Dims, Ints as SpreadInts, Number, SymInt, composite, view


def wrap_dim(dim: int, rank: int, scalar: bool = True) -> int:
    """The non-negative index of an axis.

    Raises:
      IndexError: there is no such axis; with ``scalar``, a 0-d tensor has axes 0 and -1.
    """
    least = max(rank, 1) if scalar else rank
    if least == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -least <= dim < least:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-least}, {least - 1}], but got {dim})")
    return dim % least


def wrap_dims(dims: Sequence[int], rank: int) -> Ints:
    """The non-negative indices of distinct axes."""
    axes = [wrap_dim(d, rank) for d in dims]
    for d in axes:
        if axes.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(axes)


def check_sizes(sizes: Sequence[int]) -> None:
    """Raise PyTorch's error for a size below zero."""
    if any(n < 0 for n in sizes):
        raise RuntimeError("numel: integer multiplication overflow")


# -- selecting -------------------------------------------------------------------------------------------------------


def _select_geometry(g: Geometry, index: int, dim: int) -> Geometry:
    if not g.sizes:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(g.sizes))
    size = g.sizes[dim]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(g.sizes)} at dimension {dim}")
    return evolve(
        g,
        sizes=g.sizes[:dim] + g.sizes[dim + 1 :],
        strides=g.strides[:dim] + g.strides[dim + 1 :],
        offset=g.offset + index % size * g.strides[dim],
    )


def _part(input: Array, start: Array, length: int, dim: int) -> Any:
    """The elements from an index on along an axis."""
    # where it starts along the others is an array: numbers would be entered differently beside symbolic sizes
    starts = [start if i == dim else np.zeros((), start.dtype) for i in range(input.ndim)]
    sizes = [length if i == dim else size for i, size in enumerate(input.shape)]
    return lax.dynamic_slice(input, starts, sizes, allow_negative_indices=[i == dim for i in range(input.ndim)])


@view("SelectBackward0", _select_geometry, passing="copy", method=False, function=False)
def _select(input: Array, index: Number, dim: int) -> Any:
    return lax.squeeze(_part(input, index, 1, dim % input.ndim), (dim % input.ndim,))


@composite(out=NOT_TAKEN)
def select(input: Any, dim: int, index: SymInt) -> Tensor:
    """The slice at an index along an axis, as a view.

    >>> import fgrad.torch as torch
    >>> torch.arange(6).view(2, 3).select(1, 2)
    tensor([2, 5])

    Source: `torch.select <https://docs.pytorch.org/docs/stable/generated/torch.select.html>`_.
    """
    return _select(input, index, dim)


def _slice_geometry(g: Geometry, start: int, dim: int, length: int, step: int) -> Geometry:
    return evolve(
        g,
        sizes=g.sizes[:dim] + (length,) + g.sizes[dim + 1 :],
        strides=g.strides[:dim] + (g.strides[dim] * step,) + g.strides[dim + 1 :],
        offset=g.offset + start * g.strides[dim],
    )


@view("SliceBackward0", _slice_geometry, passing="copy", method=False, function=False)
def _slice(input: Array, start: Number, dim: int, length: int, step: int) -> Any:
    if not length:
        return lax.slice_in_dim(input, 0, 0, axis=dim)
    span = (length - 1) * step + 1
    part = _part(input, start, span, dim)
    return part if step == 1 else lax.slice_in_dim(part, 0, span, step, dim)


def _within(bound: int, size: int) -> int:
    """A bound of a slice as a position in an axis."""
    if bound < 0:
        bound = bound + size
        return 0 if bound < 0 else bound
    return size if bound > size else bound


def slice_axis(input: Tensor, dim: int, start: int | None, end: int | None, step: int | None) -> Tensor:
    """``input[..., start:end:step]`` along one axis, as a view."""
    step = 1 if step is None else step
    if step <= 0:
        raise ValueError("step must be greater than zero")
    size = input._type.shape[dim]
    first, last = (0 if start is None else _within(start, size)), (size if end is None else _within(end, size))
    length = max(0, -(-(last - first) // step))
    return _slice(input, min(first, size), dim, length, step)


@composite()
def narrow(input: Any, dim: int, start: Any, length: SymInt) -> Tensor:
    """``length`` elements along an axis from ``start`` on, as a view."""
    if isinstance(start, Tensor):
        if start._type.shape or start._type.inexact or start._type.dtype is bool_:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item()
    if isinstance(start, bool) or not hasattr(start, "__index__"):
        raise TypeError(f"narrow(): argument 'start' (position 2) must be int or Tensor, not {type_name(start)}")
    start = start if start.__class__ is int else operator.index(start)
    rank = len(input._type.shape)
    if not rank:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, rank)
    size = input._type.shape[dim]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return _slice(input, start, dim, length, 1)


# -- shapes ----------------------------------------------------------------------------------------------------------


def inferred_shape(shape: Ints, numel: int) -> Ints:
    """A shape with -1 replaced by the inferred size.

    Raises:
      RuntimeError: the shape does not fit the number of elements.
    """
    unknown = [i for i, n in enumerate(shape) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    bad = [n for n in shape if n < -1]
    if bad:
        raise RuntimeError(f"invalid shape dimension {bad[0]} at index {shape.index(bad[0])} of shape {list(shape)}")
    product = math.prod([n for n in shape if n != -1])
    if unknown:
        if product == 0 and numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
                "-1 can be any value and is ambiguous"
            )
        if product and numel % product == 0:
            return tuple([numel // product if n == -1 else n for n in shape])
    elif product == numel:
        return shape
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


def _view_geometry(g: Geometry, size: Ints) -> Geometry:
    shape = inferred_shape(size, math.prod(g.sizes))
    strides = viewed_strides(g.sizes, g.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return evolve(g, sizes=shape, strides=strides)


@view("ViewBackward0", _view_geometry, name="view", method=False, function=False)
def view_sizes(input: Array, size: SpreadInts) -> Any:
    return lax.reshape(input, inferred_shape(size, input.size))


def _retyped_geometry(g: Geometry, dtype: Dtype) -> Geometry:
    if g.conj or g.neg:
        what = "conjugate view tensors" if g.conj else "tensors with negative bit set"
        raise RuntimeError(f"torch.Tensor.view is not supported for {what} when converting to a different dtype.")
    old, new = g.dtype.itemsize, dtype.itemsize
    if old == new:
        return evolve(g, dtype=dtype)
    if not g.sizes:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {g.dtype.scalar_name} as {dtype.scalar_name} (different element sizes)"
        )
    if g.strides[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {g.dtype.scalar_name} as {dtype.scalar_name} (different element "
            f"sizes), "
            f"but got {g.strides[-1]}"
        )
    if old > new:
        ratio = old // new
        return evolve(
            g,
            sizes=(*g.sizes[:-1], g.sizes[-1] * ratio),
            strides=(*(s * ratio for s in g.strides[:-1]), 1),
            offset=g.offset * ratio,
            dtype=dtype,
        )
    ratio = new // old
    if g.sizes[-1] % ratio:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} to view {g.dtype.scalar_name} as {dtype.scalar_name} "
            f"(different element sizes), but got {g.sizes[-1]}"
        )
    if g.offset % ratio:
        raise RuntimeError(
            f"self.storage_offset() must be divisible by {ratio} to view {g.dtype.scalar_name} as {dtype.scalar_name} "
            f"(different element sizes), but got {g.offset}"
        )
    for i, s in enumerate(g.strides[:-1]):
        if s % ratio:
            raise RuntimeError(
                f"self.stride({i}) must be divisible by {ratio} to view {g.dtype.scalar_name} as {dtype.scalar_name} "
                f"(different element sizes), but got {s}"
            )
    return evolve(
        g,
        sizes=(*g.sizes[:-1], g.sizes[-1] // ratio),
        strides=(*(s // ratio for s in g.strides[:-1]), 1),
        offset=g.offset // ratio,
        dtype=dtype,
    )


@view("ViewBackward1", _retyped_geometry, method=False, function=False)
def _retyped(input: Array, dtype: Dtype) -> Any:
    old, new = input.dtype.itemsize, dtype.itemsize
    if old < new:
        input = lax.reshape(input, (*input.shape[:-1], input.shape[-1] * old // new, new // old))
    bits = lax.bitcast_convert_type(input, dtype.numpy)
    return lax.collapse(bits, bits.ndim - 2) if old > new else bits


def _reinterpreted(tensor: Tensor, dtype: Dtype) -> Tensor:
    """The same memory with another element type, without history or base, and with the same version counter."""
    result = alias(tensor)
    result._geometry = _retyped_geometry(tensor._geometry_of(), dtype)
    result._type = tensor_type(dtype, result._geometry.sizes)
    return result


def _tensor_view(self: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory in another shape, or with elements of another type.

    Source: `torch.Tensor.view <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html>`_.
    """
    if shape and isinstance(shape[0], Dtype | type):
        dtype = shape[0]
    if dtype is not None:
        return _reinterpreted(self, dtypes.argument(dtype, "view"))
    if not shape and size is None:
        raise TypeError(
            "view() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    return view_sizes(self, *(shape if size is None else (size,)))


Tensor.view = _tensor_view  # type: ignore[method-assign]


@composite(function=False)
def view_as(self: Array, other: Array) -> Tensor:
    """``view`` in the shape of another tensor."""
    return view_sizes(self, tuple(other._type.shape))


def _alias_geometry(g: Geometry) -> Geometry:
    return g


@view("AliasBackward0", _alias_geometry, name="alias", method=False, function=False)
def alias_of(input: Array) -> Any:
    """The same tensor as a view."""
    return input


@view("torch::autograd::Identity", _alias_geometry, name="_fw_primal", method=False, function=False)
def forward_primal(input: Array) -> Any:
    """A tensor without its tangent, which the caller removes."""
    return input


@composite()
def reshape(input: Any, *shape: Any, **named: Any) -> Tensor:
    """The same elements in another shape: a view if the strides allow it, else a copy.

    Source: `torch.reshape <https://docs.pytorch.org/docs/stable/generated/torch.reshape.html>`_.
    """
    if "shape" in named:
        shape = (named.pop("shape"),)
    check_unexpected("reshape", named)
    if not shape:
        raise TypeError('reshape() missing 1 required positional arguments: "shape"')
    all_ints = all([n.__class__ is int for n in shape])  # noqa: C419  (a list is faster here)
    sizes = shape if all_ints else spread_ints(shape, "reshape", "shape", 1)
    geometry = input._geometry_of()
    if geometry.contiguous:
        find_nodes((input,))
    target = inferred_shape(sizes, input._type.numel)
    if geometry.contiguous:
        return view_sizes(input, *target) if target else view_sizes(input, target)
    if viewed_strides(geometry.sizes, geometry.strides, target) is not None:
        return _reshape_alias(input, target)
    return _unsafe_view(input.clone(memory_format=None), target)


@view("ReshapeAliasBackward0", _view_geometry, method=False, function=False)
def _reshape_alias(input: Array, size: SpreadInts) -> Any:
    return lax.reshape(input, inferred_shape(size, input.size))


@composite(function=False)
def reshape_as(self: Array, other: Array) -> Tensor:
    """``reshape`` in the shape of another tensor."""
    return reshape(self, tuple(other._type.shape))


@view("UnsafeViewBackward0", _view_geometry, method=False, function=False)
def _unsafe_view_of(input: Array, size: SpreadInts) -> Any:
    return lax.reshape(input, inferred_shape(size, input.size))


def _unsafe_view(input: Tensor, size: Ints) -> Tensor:
    """``view`` of a fresh copy: the result is not a view, and has its own version counter."""
    return cut_from_base(_unsafe_view_of(input, size))


@composite(out=NOT_TAKEN)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Adjacent axes merged into one."""
    shape = input._type.shape
    first, last = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshape(input, (1,))
    if first == last:
        return input
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@composite()
def ravel(input: Any) -> Tensor:
    """All elements as a vector."""
    return reshape(input, (-1,)) if input.is_contiguous() else reshape(input.contiguous(), (-1,))


@composite(dispatch=Dispatch(method=evolve(METHOD_IN_PYTHON, listed=False)))
def unflatten(input: Any, dim: int, sizes: Dims) -> Tensor:
    """One axis split into several."""
    shape = input._type.shape
    dim = wrap_dim(dim, len(shape))
    if not shape:
        raise RuntimeError(
            f"unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions"
        )
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    product = math.prod([n for n in sizes if n != -1])
    if -1 in sizes:
        if product == 0 or shape[dim] % product:
            raise RuntimeError(
                f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
                f"({shape[dim]}) in the input tensor"
            )
        sizes = tuple([shape[dim] // product if n == -1 else n for n in sizes])
    elif product != shape[dim]:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({shape[dim]}) "
            f"in the input tensor"
        )
    return view_sizes(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))


def _expand_geometry(g: Geometry, size: Ints) -> Geometry:
    extra = len(size) - len(g.sizes)
    if extra < 0:
        name = tensor_type_name(g.dtype.scalar_name)
        raise RuntimeError(
            f"expand({name}{{{list(g.sizes)}}}, size={list(size)}): the number of sizes provided ({len(size)}) must "
            f"be greater or equal to the number of dimensions in the tensor ({len(g.sizes)})"
        )
    sizes, strides = list(size), [0] * len(size)
    if not g.sizes:
        check_sizes(size)
        return evolve(g, sizes=size, strides=tuple(strides))
    for i in reversed(range(len(size))):
        axis = i - extra
        current = g.sizes[axis] if axis >= 0 else 1
        stride = g.strides[axis] if axis >= 0 else (sizes[i + 1] * strides[i + 1] if i + 1 < len(size) else 1)
        target = size[i]
        if target == -1:
            if axis < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({target}) isn't allowed in a leading, non-existing dimension {i}"
                )
            target = current
        if current != target:
            if current != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({target}) must match the existing size ({current}) at "
                    f"non-singleton dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: {list(g.sizes)}"
                )
            stride = 0
        sizes[i], strides[i] = target, stride
    check_sizes(sizes)
    return evolve(g, sizes=tuple(sizes), strides=tuple(strides))


@view("ExpandBackward0", _expand_geometry, function=False, passing="itself")
def expand(input: Array, size: SpreadInts) -> Any:
    """Axes of size 1 repeated without a copy, as a view."""
    extra = len(size) - input.ndim
    return jnp.broadcast_to(input, tuple([input.shape[i - extra] if n == -1 else n for i, n in enumerate(size)]))


@composite(function=False)
def expand_as(self: Array, other: Array) -> Tensor:
    """``expand`` to the shape of another tensor."""
    return expand(self, tuple(other._type.shape))


@composite()
def broadcast_to(input: Array, size: SpreadInts) -> Tensor:
    """``expand`` by another name."""
    return expand(input, size)


def _remaining_axes(sizes: Ints, dims: Ints | None) -> list[int]:
    """The axes that ``squeeze`` keeps."""
    candidates = range(len(sizes)) if dims is None else wrap_dims(dims, len(sizes))
    return [i for i, n in enumerate(sizes) if n != 1 or i not in candidates]


def _restricted(g: Geometry, axes: Sequence[int]) -> Geometry:
    return evolve(g, sizes=tuple([g.sizes[i] for i in axes]), strides=tuple([g.strides[i] for i in axes]))


@view(
    "SqueezeBackward0",
    lambda g: _restricted(g, _remaining_axes(g.sizes, None)),
    method=False,
    function=False,
    passing="view",
)
def _squeeze_all(input: Array) -> Any:
    return lax.reshape(input, tuple([n for n in input.shape if n != 1]))


@view(
    "SqueezeBackward1",
    lambda g, dim: _restricted(g, _remaining_axes(g.sizes, (dim,))),
    method=False,
    function=False,
    passing="view",
)
def _squeeze_dim(input: Array, dim: int) -> Any:
    return lax.reshape(input, tuple([input.shape[i] for i in _remaining_axes(input.shape, (dim,))]))


@view(
    "SqueezeBackward2",
    lambda g, dim: _restricted(g, _remaining_axes(g.sizes, dim)),
    method=False,
    function=False,
    passing="view",
)
def _squeeze_dims(input: Array, dim: SpreadInts) -> Any:
    return lax.reshape(input, tuple([input.shape[i] for i in _remaining_axes(input.shape, dim)]))


@composite(out=NOT_TAKEN)
def squeeze(input: Any, dim: Dims = None) -> Tensor:
    """The tensor without its axes of size 1, as a view."""
    if dim is None:
        return _squeeze_all(input)
    return _squeeze_dim(input, dim) if isinstance(dim, int) else _squeeze_dims(input, dim)


def _unsqueeze_geometry(g: Geometry, dim: int) -> Geometry:
    dim = wrap_dim(dim, len(g.sizes) + 1)
    step = g.sizes[dim] * g.strides[dim] if dim < len(g.sizes) else 1
    return evolve(g, sizes=g.sizes[:dim] + (1,) + g.sizes[dim:], strides=g.strides[:dim] + (step,) + g.strides[dim:])


@view("UnsqueezeBackward0", _unsqueeze_geometry)
def unsqueeze(input: Array, dim: int) -> Any:
    """A new axis of size 1, as a view."""
    return lax.expand_dims(input, (dim % (input.ndim + 1),))
