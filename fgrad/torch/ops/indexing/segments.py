"""Reductions of the segments of an axis: ``segment_reduce``."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.operation.operands import number_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import elements
from fgrad.torch.ops.indexing.coordinates import added, multiplied, read, scattered
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.overloads import add_alias, overload
from fgrad.torch.ops.table.table import Array, Fixed, Number, composite
from fgrad.torch.ops.views.views import wrap_dim

#: the result of an empty segment, by reduction
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}


def _segments(bounds: Any, length: int) -> Any:
    """The segment of each element, row by row; for elements outside all, the number of segments."""
    positions = jnp.arange(length)
    inside = (positions >= bounds[..., :1]) & (positions < bounds[..., -1:])
    segment = jnp.sum(positions[..., None] >= bounds[..., None, 1:], -1)
    return choose(inside, segment, bounds.shape[-1] - 1)


def _coordinates(bounds: Any, length: int) -> tuple[Any, ...]:
    segments = _segments(bounds, length)
    rows = np.indices(segments.shape)[:-1]
    return (*rows, segments)


def _reduced(data: Any, coordinates: Any, sizes: Any, reduce: str, initial: Any) -> Any:
    """The reduction; elements outside all segments go into an extra one, which is cut off."""
    axis = coordinates[-1].ndim - 1
    shape = (*data.shape[:axis], sizes.shape[axis] + 1, *data.shape[axis + 1 :])
    start = jnp.full(shape, _EMPTY[reduce] if initial is None else initial, data.dtype)
    if reduce in ("sum", "mean"):
        reduced = added(start, coordinates, data)
    elif reduce == "prod":
        reduced = multiplied(start, coordinates, data)
    else:
        reduced = scattered(lax.scatter_max if reduce == "max" else lax.scatter_min, start, coordinates, data)
    reduced = lax.slice_in_dim(reduced, 0, sizes.shape[axis], axis=axis)
    if reduce != "mean":
        return reduced
    return choose(sizes > 0, reduced / jnp.maximum(sizes, 1), np.nan if initial is None else reduced)


def _gradient(ct: Any, out: Any, data: Any, coordinates: Any, sizes: Any, reduce: str, initial: Any) -> Any:
    """PyTorch's gradient: elements that tie for the extremum share it; a factor's is the product of the others."""
    axis = coordinates[-1].ndim - 1

    def per_element(x: Any) -> Any:
        """The value of each element's segment; 0 for elements outside all."""
        return read(jnp.concatenate([x, jnp.zeros_like(lax.slice_in_dim(x, 0, 1, axis=axis))], axis), coordinates)

    if reduce == "sum":
        return per_element(ct)
    if reduce == "mean":
        return per_element(ct / jnp.maximum(sizes, 1).astype(ct.dtype))
    if reduce == "prod":
        gradient = per_element(ct * out) / choose(data == 0, 1, data)
        for found in (data == 0, jnp.isnan(data)):  # the quotient loses what the others' product is
            only = found & (per_element(_reduced(found.astype(data.dtype), coordinates, sizes, "sum", None)) == 1)
            others = _reduced(choose(only, 1, data), coordinates, sizes, "prod", initial)
            gradient = choose(only, per_element(ct * others), gradient)
        return gradient
    result = per_element(out)
    hits = ((data == result) | (jnp.isnan(data) & jnp.isnan(result))).astype(data.dtype)
    return hits * per_element(ct / jnp.maximum(_reduced(hits, coordinates, sizes, "sum", None), 1))


@overload(
    "_segment_reduce", "SegmentReduceBackward0", saved=("data", "lengths", "offsets", "initial"),
    always_saved=("data", "result"), backward_node=NOT_IMPLEMENTED,
)  # fmt: skip
def _segment_reduce(data: Array, lengths: Fixed, offsets: Fixed, initial: Number, reduce: str, axis: int) -> Any:
    check_kinds("_segment_reduce_cpu", "f", data)
    if offsets is None:
        check_kinds("_segment_reduce_lengths_cpu_kernel1", "i", lengths)
        bounds = jnp.concatenate([jnp.zeros((*lengths.shape[:-1], 1), lengths.dtype), jnp.cumsum(lengths, -1)], -1)
    else:
        check_kinds("_segment_reduce_offsets_cpu_kernel1", "i", offsets)
        bounds = offsets

    def coordinates_and_sizes(x: Any, bounds: Any) -> tuple[Any, Any]:
        sizes = jnp.diff(bounds)
        return _coordinates(bounds, x.shape[axis]), lax.reshape(sizes, (*sizes.shape, *(1,) * (x.ndim - axis - 1)))

    def forward(x: Any, bounds: Any, initial: Any) -> Any:
        return _reduced(x, *coordinates_and_sizes(x, bounds), reduce, initial)

    def pullback(ct: Any, out: Any, x: Any, bounds: Any, initial: Any) -> tuple[Any, None, None]:
        return _gradient(ct, out, x, *coordinates_and_sizes(x, bounds), reduce, initial), None, None

    return fgrad.define_rule(forward, vjp=pullback)(data, bounds, initial)


def _check(lengths: Tensor, data: Tensor, axis: int) -> None:
    values = elements(lengths._value())
    if values is None:
        expect(lambda: (lengths >= 0) & (lengths.sum(-1, keepdim=True) == data._type.shape[axis]))
        return
    if not lengths._type.numel:
        raise RuntimeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument."
        )
    if values.min() < 0:
        raise RuntimeError("lengths contains negative value!")
    if (values.sum(-1) != data._type.shape[axis]).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )


@composite(method=False)
def segment_reduce(
    data: Array,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """The sum, product, mean or extremum of each segment of an axis.

    Arguments:
      data: a tensor of floating-point numbers.
      reduce: "sum", "prod", "mean", "max" or "min"; "amax" and "amin" are the same as the last two.
      lengths: the lengths of the segments, in the last axis; the axes before are those of ``data``.
      indices: not supported, as in PyTorch.
      offsets: instead of ``lengths``, where each segment begins and the last one ends.
      axis: the axis that is cut into segments.
      unsafe: do not check that the lengths add up to that of the axis.
      initial: the value from which each reduction starts.

    Raises:
      RuntimeError: there are neither lengths nor offsets, or they do not fit the data.

    >>> import fgrad.torch as torch
    >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])

    Source: PyTorch: aten/src/ATen/native/SegmentReduce.cpp
    """
    axis = wrap_dim(axis, len(data._type.shape))
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    kind = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if kind not in _EMPTY:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    name, bounds = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    assert bounds is not None
    if axis != len(bounds._type.shape) - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if offsets is None and not unsafe:
        _check(bounds, data, axis)
    operands = (lengths, None) if offsets is None else (None, offsets)
    operands = (data, *operands, number_of("_segment_reduce", "initial", initial))
    return apply(_segment_reduce.operation, operands, (kind, axis))


add_alias("_segment_reduce", "segment_reduce")
