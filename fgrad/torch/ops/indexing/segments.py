"""Reductions of the stretches of an axis: ``segment_reduce``."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.torch.ops.indexing.coordinates import added, multiplied, read
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, Fixed, composite
from fgrad.torch.ops.views.views import wrap_dim

#: what a segment without elements is, by reduction
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}


def _segments(bounds: Any, length: int) -> Any:
    """The segment of each element, in rows; of an element in none, their number."""
    places = jnp.arange(length)
    inside = (places >= bounds[..., :1]) & (places < bounds[..., -1:])
    found = jnp.sum(places[..., None] >= bounds[..., None, 1:], -1)
    return jnp.where(inside, found, bounds.shape[-1] - 1)


def _places(bounds: Any, length: int) -> tuple[Any, ...]:
    segments = _segments(bounds, length)
    rows = np.indices(segments.shape)[:-1]
    return (*rows, segments)


def _reduced(data: Any, places: Any, sizes: Any, reduce: str, initial: float | None) -> Any:
    """The reduction; what is in no segment goes into one more, which is cut off."""
    axis = places[-1].ndim - 1
    shape = (*data.shape[:axis], sizes.shape[axis] + 1, *data.shape[axis + 1 :])
    start = jnp.full(shape, _EMPTY[reduce] if initial is None else initial, data.dtype)
    if reduce in ("sum", "mean"):
        found = added(start, places, data)
    elif reduce == "prod":
        found = multiplied(start, places, data)
    else:
        place = start.at[places]
        found = (place.max if reduce == "max" else place.min)(data, mode="promise_in_bounds")
    found = lax.slice_in_dim(found, 0, sizes.shape[axis], axis=axis)
    if reduce != "mean":
        return found
    return jnp.where(sizes > 0, found / jnp.maximum(sizes, 1), np.nan if initial is None else found)


def _gradient(ct: Any, out: Any, data: Any, places: Any, sizes: Any, reduce: str, initial: float | None) -> Any:
    """PyTorch's gradient: elements that tie for the extremum share it, and a product's is that of the others."""
    axis = places[-1].ndim - 1

    def along(x: Any) -> Any:
        """What each element's segment has, 0 for an element in none."""
        return read(jnp.concatenate([x, jnp.zeros_like(lax.slice_in_dim(x, 0, 1, axis=axis))], axis), places)

    if reduce == "sum":
        return along(ct)
    if reduce == "mean":
        return along(ct / jnp.maximum(sizes, 1).astype(ct.dtype))
    if reduce == "prod":
        zero = data == 0
        alone = zero & (along(_reduced(zero.astype(data.dtype), places, sizes, "sum", None)) == 1)
        others = _reduced(jnp.where(alone, 1, data), places, sizes, "prod", initial)
        return jnp.where(alone, along(ct * others), along(ct * out) / jnp.where(zero, 1, data))
    result = along(out)
    hits = ((data == result) | (jnp.isnan(data) & jnp.isnan(result))).astype(data.dtype)
    return hits * along(ct / jnp.maximum(_reduced(hits, places, sizes, "sum", None), 1))


@overload(
    "_segment_reduce", "SegmentReduceBackward0", saved=("data", "lengths", "offsets"), kept=("data", "result"),
    fused=NOT_IMPLEMENTED,
)  # fmt: skip
def _segment_reduce(data: Array, lengths: Fixed, offsets: Fixed, reduce: str, axis: int, initial: float | None) -> Any:
    check_kinds("_segment_reduce_cpu", "f", data)
    if offsets is None:
        check_kinds("_segment_reduce_lengths_cpu_kernel1", "i", lengths)
        bounds = jnp.concatenate([jnp.zeros((*lengths.shape[:-1], 1), lengths.dtype), jnp.cumsum(lengths, -1)], -1)
    else:
        check_kinds("_segment_reduce_offsets_cpu_kernel1", "i", offsets)
        bounds = offsets

    def places_and_sizes(x: Any, bounds: Any) -> tuple[Any, Any]:
        sizes = jnp.diff(bounds)
        return _places(bounds, x.shape[axis]), lax.reshape(sizes, (*sizes.shape, *(1,) * (x.ndim - axis - 1)))

    def forward(x: Any, bounds: Any) -> Any:
        return _reduced(x, *places_and_sizes(x, bounds), reduce, initial)

    def pullback(ct: Any, out: Any, x: Any, bounds: Any) -> tuple[Any, None]:
        return _gradient(ct, out, x, *places_and_sizes(x, bounds), reduce, initial), None

    return fgrad.define_rule(forward, vjp=pullback)(data, bounds)


def _check(lengths: Tensor, data: Tensor, axis: int) -> None:
    values = lengths._value()
    if is_abstract(values):
        return
    if not lengths._type.numel:
        raise RuntimeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument."
        )
    if concrete(values).min() < 0:
        raise RuntimeError("lengths contains negative value!")
    if (concrete(values).sum(-1) != data._type.shape[axis]).any():
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
    """The sum, product, mean or extremum of each of the stretches that an axis is cut into.

    Arguments:
      data: a tensor of floating-point numbers.
      reduce: "sum", "prod", "mean", "max" or "min"; "amax" and "amin" are the same as the last two.
      lengths: how long each stretch is, in the last axis; the axes before are those of ``data``.
      indices: nothing.
      offsets: where each stretch begins, and where the last one ends, in place of ``lengths``.
      axis: the axis that is cut.
      unsafe: whether lengths are taken as they are, though they do not add up to that of the axis.
      initial: what each reduction starts from.

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
    name, given = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    assert given is not None
    if axis != len(given._type.shape) - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if offsets is None and not unsafe:
        _check(given, data, axis)
    both = (lengths, None) if offsets is None else (None, offsets)
    start = None if initial is None else float(initial)
    return apply(_segment_reduce.operation, (data, *both), (kind, axis, start))
