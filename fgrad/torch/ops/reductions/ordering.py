"""Sorting, order statistics, quantiles, and unique elements."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.values.evaluation import concrete, counted, dynamic, elements
from fgrad.torch import return_types
from fgrad.torch.ops.creation.combinations import lerp
from fgrad.torch.ops.creation.copying import as_first
from fgrad.torch.ops.creation.creation import full_like
from fgrad.torch.ops.creation.making import tensor_beside
from fgrad.torch.ops.creation.nondifferentiable import given_by, underived
from fgrad.torch.ops.elementwise.bitwise import logical_not
from fgrad.torch.ops.elementwise.comparison import isnan
from fgrad.torch.ops.elementwise.rounding import ceil, floor, round
from fgrad.torch.ops.indexing.gathering import gather
from fgrad.torch.ops.indexing.selection import clamp, where
from fgrad.torch.ops.reductions import reductions
from fgrad.torch.ops.reductions.extrema import evenly_shared, index_of_largest, take_along
from fgrad.torch.ops.reductions.quickselect import quick_selected
from fgrad.torch.ops.reductions.reductions import check_nonempty
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.dispatch import IN_PYTHON
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import NOT_TAKEN, ONTO_ITSELF, QUANTILE, Memory, exact
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Integer, SymInt, composite
from fgrad.torch.ops.views.axes import transpose
from fgrad.torch.ops.views.inplace_views import squeeze_, transpose_, unsqueeze_
from fgrad.torch.ops.views.views import flatten, unsqueeze, wrap_dim

_KEPT = ("values", "indices")


def _order(input: Any, dim: int, descending: bool) -> Any:
    """The indices that sort an axis stably, with NaN greater than all."""
    return jnp.argsort(lax.stop_gradient(input), dim, stable=True, descending=descending).astype(np.int64)


def _check_ordered(function: str, array: Any) -> None:
    if array.dtype.kind == "c":
        raise RuntimeError(f" {function} does not support complex dtypes on CPU")


def _sort_along(input: Any, dim: int, descending: bool) -> Any:
    _check_ordered("Sort", input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input, jnp.zeros((), np.int64)
    indices = _order(input, dim, descending)
    return take_along(input, indices, dim), indices


# -- sorting ---------------------------------------------------------------------------------------------------------


@overload("sort", "SortBackward0", outputs=_KEPT, strides=as_first)
def _sort(input: Array, dim: int, descending: bool) -> Any:
    return _sort_along(input, dim, descending)


@overload("sort", "SortBackward1", outputs=_KEPT, strides=as_first)
def _sort_stable(input: Array, stable: bool, dim: int, descending: bool) -> Any:
    return _sort_along(input, dim, descending)


@composite(out=ONTO_ITSELF)
def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    """The elements sorted along an axis, and their indices; equal elements keep their order.

    >>> import fgrad.torch as torch
    >>> torch.tensor([3., 1., 2.]).sort().indices
    tensor([1, 2, 0])

    Source: `torch.sort <https://docs.pytorch.org/docs/stable/generated/torch.sort.html>`_.
    """
    if stable is None:
        return return_types.sort(apply(_sort.operation, (input,), (dim, descending)))
    return return_types.sort(apply(_sort_stable.operation, (input,), (stable, dim, descending)))


@composite(out=NOT_TAKEN)
def argsort(input: Array, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Tensor:
    """The indices that sort an axis.

    Source: `torch.argsort <https://docs.pytorch.org/docs/stable/generated/torch.argsort.html>`_.
    """
    return sort(input, dim, descending, stable=stable).indices


@composite(out=ONTO_ITSELF)
def msort(input: Array) -> Tensor:
    """The elements sorted along the first axis.

    Source: `torch.msort <https://docs.pytorch.org/docs/stable/generated/torch.msort.html>`_.
    """
    return sort(input, 0).values


@overload("topk", "TopkBackward0", outputs=_KEPT)
def _topk(input: Array, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    _check_ordered("topk", input)
    dim = wrap_dim(dim, input.ndim)
    if not 0 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if not input.ndim:
        return (input, jnp.zeros((), np.int64))
    indices = lax.slice_in_dim(_order(input, dim, largest), 0, k, axis=dim)
    return take_along(input, indices, dim), indices


@composite(out=ONTO_ITSELF)
def topk(input: Array, k: SymInt, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` largest (or smallest) elements along an axis, and their indices.

    Source: `torch.topk <https://docs.pytorch.org/docs/stable/generated/torch.topk.html>`_.
    """
    if input._type.dtype is dtypes.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    return return_types.topk(apply(_topk.operation, (input,), (int(k), dim, largest, sorted)))


# -- order statistics ------------------------------------------------------------------------------------------------


def _statistic(
    function: str,
    input: Any,
    dim: int,
    keepdim: bool,
    index_of: Callable[[Any, int], Any],
    kernel: str,
    kinds: str,
) -> Any:
    check_kinds(kernel, kinds, input)
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        return input, jnp.zeros((), np.int64)
    check_nonempty(function, input.shape, dim)
    # the derivative reads the index, an output, so it is recorded in the shape in which it is returned
    indices = lax.squeeze(index_of(lax.stop_gradient(input), dim).astype(np.int64), () if keepdim else (dim,))
    with_axis = indices if keepdim else lax.expand_dims(indices, (dim,))
    return lax.squeeze(take_along(input, with_axis, dim), () if keepdim else (dim,)), indices


def _median_index(x: Any, dim: int) -> Any:
    """The index of the lower median, or of the first NaN if there is one."""
    order = _order(x, dim, False)
    middle = lax.slice_in_dim(order, (x.shape[dim] - 1) // 2, (x.shape[dim] - 1) // 2 + 1, axis=dim)
    if kind(x) != "f":
        return middle
    missing = lax.ne(x, x)
    return choose(jnp.any(missing, dim, keepdims=True), index_of_largest(missing, dim, True), middle)


def _nanmedian_index(x: Any, dim: int) -> Any:
    """The index of the lower median of the elements that are not NaN."""
    if kind(x) != "f":
        return _median_index(x, dim)
    count = jnp.sum(lax.eq(x, x), dim, keepdims=True, dtype=np.int64)
    return take_along(_order(x, dim, False), jnp.maximum(count - 1, 0) // 2, dim)


def _statistic_of_all(input: Any, index_of: Callable[[Any, int], Any]) -> Any:
    check_kinds("median_cpu", "if", input)
    if not input.size:
        if kind(input) == "f":
            return lax.full((), np.nan, input.dtype)
        return lax.full((), np.iinfo(input.dtype).min, input.dtype)

    def reduce(x: Any, axes: Any, keepdims: bool) -> Any:
        flat = lax.reshape(x, (x.size,))
        return lax.squeeze(take_along(flat, index_of(flat, 0), 0), (0,))

    return evenly_shared(input, reduce, tuple(range(input.ndim)), False, True)


@overload("median", "MedianBackward0")
def _median_all(input: Array) -> Any:
    return _statistic_of_all(input, _median_index)


@overload("median", "MedianBackward1", outputs=_KEPT)
def _median_dim(input: Array, dim: int, keepdim: bool) -> Any:
    return _statistic("median", input, dim, keepdim, _median_index, "median_out", "if")


@overload("nanmedian", "NanmedianBackward0")
def _nanmedian_all(input: Array) -> Any:
    return _statistic_of_all(input, _nanmedian_index)


@overload("nanmedian", "NanmedianBackward1", outputs=_KEPT)
def _nanmedian_dim(input: Array, dim: int, keepdim: bool) -> Any:
    return _statistic("nanmedian", input, dim, keepdim, _nanmedian_index, "median_out", "if")


@composite(out=ONTO_ITSELF)
def median(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements; along an axis, with its index.

    Source: `torch.median <https://docs.pytorch.org/docs/stable/generated/torch.median.html>`_.
    """
    if dim is None:
        return apply(_median_all.operation, (input,))
    return return_types.median(apply(_median_dim.operation, (input,), (dim, keepdim)))


@composite(out=ONTO_ITSELF)
def nanmedian(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not NaN.

    Source: `torch.nanmedian <https://docs.pytorch.org/docs/stable/generated/torch.nanmedian.html>`_.
    """
    if dim is None:
        return apply(_nanmedian_all.operation, (input,))
    return return_types.nanmedian(apply(_nanmedian_dim.operation, (input,), (dim, keepdim)))


@overload("kthvalue", "KthvalueBackward0", outputs=_KEPT)
def _kthvalue(input: Array, k: Integer, dim: int, keepdim: bool) -> Any:
    def index_of(x: Any, axis: int) -> Any:
        return jnp.expand_dims(jnp.apply_along_axis(quick_selected, axis, x, k - 1), axis)

    return _statistic("kthvalue", input, dim, keepdim, index_of, "kthvalue_cpu", "if")


@composite(
    out=exact(
        "output {output}",
        "values must be of same type as input",
        "indices must be of scalar type Long",
        memory=Memory.DISJOINT,
    )
)
def kthvalue(input: Array, k: SymInt, dim: int = -1, keepdim: bool = False) -> Any:
    """The ``k``-th smallest element along an axis, and its index.

    Source: `torch.kthvalue <https://docs.pytorch.org/docs/stable/generated/torch.kthvalue.html>`_.
    """
    shape, k = input._type.shape, int(k)
    axis = wrap_dim(dim, len(shape))
    if shape and not shape[axis]:
        raise IndexError(f"kthvalue(): Expected reduction dim {axis} to have non-zero size.")
    if not 1 <= k <= (shape[axis] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    return return_types.kthvalue(apply(_kthvalue.operation, (input, k), (dim, keepdim)))


def _mode_index(x: Any, dim: int) -> Any:
    """The last index of the smallest among the most frequent elements."""
    order = _order(x, dim, False)
    ranked = take_along(x, order, dim)
    positions = lax.broadcasted_iota(np.int64, x.shape, dim)
    size = x.shape[dim]
    before = jnp.concatenate(
        [lax.slice_in_dim(ranked, 0, 1, axis=dim), lax.slice_in_dim(ranked, 0, size - 1, axis=dim)], dim
    )
    starts = lax.cummax(choose(lax.ne(ranked, before), positions, 0), dim)
    best = index_of_largest((positions - starts).astype(np.int32), dim, True)
    return take_along(order, best, dim)


@overload("mode", "ModeBackward0", outputs=_KEPT)
def _mode(input: Array, dim: int, keepdim: bool) -> Any:
    return _statistic("mode", input, dim, keepdim, _mode_index, "mode_cpu", "bif")


@composite(
    out=exact(
        "expected scalar type '{want}' but got '{got}' for {output} output",
        "values",
        "indices",
        memory=Memory.SAME,
    )
)
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along an axis, and its index.

    Source: `torch.mode <https://docs.pytorch.org/docs/stable/generated/torch.mode.html>`_.
    """
    return return_types.mode(apply(_mode.operation, (input,), (dim, keepdim)))


# -- quantiles -------------------------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skips: bool) -> Tensor:
    """Quantiles composed as in PyTorch: sort, gather the neighbours, interpolate."""
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
        q = tensor_beside(input, np.asarray(q), input._type.dtype if input._type.inexact else dtypes.float32)
    if not input._type.numel:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if len(q._type.shape) > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if input._type.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q._type.dtype is not input._type.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    value = q._value()
    held = elements(value)
    probabilities = concrete(value) if held is None else held
    if ((probabilities < 0) | (probabilities > 1)).any():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return _quantiles_of(input, q, dim, keepdim, interpolation, skips)


def _quantiles_of(input: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str, skips: bool) -> Tensor:
    rank = len(input._type.shape)
    axis = 0 if dim is None else wrap_dim(dim, rank)
    if dim is None:
        rows = sort(flatten(input)).values
    elif axis == rank - 1:
        rows = sort(input).values
    else:
        rows = sort(transpose(unsqueeze(input, -1), axis, -1)).values
    if keepdim:
        remaining = [1] * rank if dim is None else [1 if i == axis else n for i, n in enumerate(input._type.shape)]
    else:
        remaining = [] if dim is None else [n for i, n in enumerate(input._type.shape) if i != axis]
    rows = rows.view((*remaining, rows._type.shape[-1]))
    last_index = rows._type.shape[-1] - 1
    probabilities = q if q._type.shape else unsqueeze(q, 0)
    missing = isnan(rows)
    if skips:
        ranks = clamp(probabilities * (reductions.sum(logical_not(missing), -1, True) - 1), 0)
    else:
        ranks = where(reductions.any(missing, -1, True), float(last_index), probabilities * last_index)
    rounding = {"lower": floor, "higher": ceil, "nearest": round}.get(interpolation)
    if rounding is not None:
        ranks = rounding(ranks)
    below = ranks.detach().to(dtypes.int64)
    quantiles = gather(rows, -1, below)
    if rounding is None:
        above = ceil(ranks.detach()).to(dtypes.int64)
        weights = full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        quantiles = lerp(quantiles, gather(rows, -1, above), weights)
    if q._type.shape:
        transpose_(unsqueeze_(quantiles, 0), 0, -1)
    return squeeze_(quantiles, -1)


@composite(autocast="fp32", out=QUANTILE)
def quantile(
    input: Array, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantiles of all elements or along an axis; several ``q`` are the first axis of the result.

    Source: `torch.quantile <https://docs.pytorch.org/docs/stable/generated/torch.quantile.html>`_.
    """
    return _quantile(input, q, dim, keepdim, interpolation, False)


@composite(autocast="fp32", out=QUANTILE)
def nanquantile(
    input: Array, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantiles of the elements that are not NaN.

    Source: `torch.nanquantile <https://docs.pytorch.org/docs/stable/generated/torch.nanquantile.html>`_.
    """
    return _quantile(input, q, dim, keepdim, interpolation, True)


# -- unique elements -------------------------------------------------------------------------------------------------


_UNIQUE = underived("_unique2", "Unique2Backward0", "self")
_UNIQUE_DIM = underived("unique_dim", "UniqueDimBackward0", "self")
_UNIQUE_CONSECUTIVE = underived("unique_consecutive", "UniqueConsecutiveBackward0", "self")


def _unique_results(operation: Operation, input: Tensor, unique: np.ndarray, inverse: Any, counts: Any) -> Any:
    results = [given_by(operation, (input,), unique, dtype=input._type.dtype)]
    results += [tensor_beside(input, np.asarray(x), dtypes.int64) for x in (inverse, counts) if x is not None]
    return results[0] if len(results) == 1 else tuple(results)


def _axis_of_slices(dim: int, shape: Sequence[int]) -> int:
    if not shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = wrap_dim(dim, len(shape))
    empty = shape.count(0)
    if empty > 1:
        raise RuntimeError("Number of zero sized dimensions is more than one, so unique cannot be applied ")
    if empty and shape[axis]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return axis


@composite(dispatch=IN_PYTHON, out=NOT_TAKEN)
def unique(
    input: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements, or slices along an axis, sorted.

    Arguments:
      input: the tensor.
      sorted: ignored: the result is always sorted.
      return_inverse: also return the index of each element among them.
      return_counts: also return how often each occurs.
      dim: the axis of the slices.

    Source: `torch.unique <https://docs.pytorch.org/docs/stable/generated/torch.unique.html>`_.
    """
    values = counted(input._value(), dynamic("_unique2"))
    check_kinds("unique" if dim is None else "unique_dim", "bif", values)
    axis = None if dim is None else _axis_of_slices(dim, values.shape)
    # NumPy does not sort NaNs last for types that are not its own
    comparable = values.astype(np.float32) if kind(values) == "f" and values.dtype.kind != "f" else values
    found = np.unique(
        comparable, return_inverse=return_inverse, return_counts=return_counts, axis=axis, equal_nan=False
    )
    distinct, *extras = found if isinstance(found, tuple) else (found,)
    inverse = extras.pop(0).reshape(values.shape if axis is None else -1) if return_inverse else None
    counts = extras.pop(0) if return_counts else None
    operation = _UNIQUE if dim is None else _UNIQUE_DIM
    return _unique_results(operation, input, distinct.astype(values.dtype), inverse, counts)


@composite(dispatch=IN_PYTHON, out=NOT_TAKEN)
def unique_consecutive(
    input: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or slices along an axis, without those equal to their predecessor.

    Source: `torch.unique_consecutive
    <https://docs.pytorch.org/docs/stable/generated/torch.unique_consecutive.html>`_.
    """
    values = counted(input._value(), dynamic("unique_consecutive"))
    check_kinds("unique" if dim is None else "unique_dim", "bif", values)
    axis = None if dim is None else _axis_of_slices(dim, values.shape)
    rows = values.reshape(-1) if axis is None else np.moveaxis(values, axis, 0)
    changed = np.ones(len(rows), bool)
    changed[1:] = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
    starts = np.flatnonzero(changed)
    inverse = np.cumsum(changed) - 1
    counts = np.diff(np.append(starts, len(rows)))
    distinct = rows[starts] if axis is None else np.moveaxis(rows[starts], 0, axis)
    indices = inverse.reshape(values.shape) if dim is None else inverse
    extras = indices if return_inverse else None, counts if return_counts else None
    return _unique_results(_UNIQUE_CONSECUTIVE, input, distinct, *extras)
