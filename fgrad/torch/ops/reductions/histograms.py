"""Histograms of elements, and of points in several dimensions."""

import math
from typing import Any

import numpy as np

from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.capacity import check_storage
from fgrad.torch import return_types
from fgrad.torch.ops.creation.copying import elements
from fgrad.torch.ops.creation.making import tensor_beside
from fgrad.torch.ops.creation.nondifferentiable import given_by, underived
from fgrad.torch.ops.examples import each_example
from fgrad.torch.ops.table.kinds import check_kinds, check_wide
from fgrad.torch.ops.table.table import Array, composite


def _range_of(values: np.ndarray, low: float, high: float, function: str, margin: float = 0.5) -> tuple[float, float]:
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - margin, high + margin
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"{function}: range of [{low:g}, {high:g}] is not finite")
    return low, high


@composite()
@each_example("aten::histc")
def histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The number of elements in each of ``bins`` equal bins of a range; those outside are not counted.

    Source: `torch.histc <https://docs.pytorch.org/docs/stable/generated/torch.histc.html>`_.
    """
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if min > max:
        raise RuntimeError("torch.histc: max must be larger than min")
    values = elements(input)
    check_kinds("histogram_cpu", "f", values)
    low, high = _range_of(values, min, max, "torch.histc", 1)
    check_storage((bins + 1,), input._type.dtype.itemsize)
    return tensor_beside(input, _binned(values, bins, low, high, None), input._type.dtype)


def _binned(values: np.ndarray, bins: int, low: float, high: float, weight: np.ndarray | None) -> np.ndarray:
    flat = values.reshape(-1)
    inside = (flat >= low) & (flat <= high)
    width = values.dtype.type(high) - values.dtype.type(low)
    bin_indices = ((flat[inside] - values.dtype.type(low)) / width * bins).astype(np.int64)
    edges = np.linspace(low, high, bins + 1, dtype=values.dtype)
    bin_indices = np.clip(bin_indices, 0, bins - 1)
    # near an edge the quotient may be off by one
    bin_indices -= flat[inside] < edges[bin_indices]
    bin_indices += (flat[inside] >= edges[bin_indices + 1]) & (bin_indices < bins - 1)
    return np.bincount(bin_indices, None if weight is None else weight.reshape(-1)[inside], bins)


#: with one, two and three operands
_HISTOGRAMS = [
    underived("histogram", NOT_IMPLEMENTED, *("self", "bins", "weight")[:count], results=2) for count in (1, 2, 3)
]


@composite()
@each_example("aten::histogram")
def histogram(input: Array, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """The number of elements in each bin, and the edges of the bins.

    Arguments:
      input: the tensor.
      bins: the number of equal bins, or a tensor of increasing edges.
      range: the first and the last edge.
      weight: the weight of each element.
      density: normalise to an integral of 1.

    Source: `torch.histogram <https://docs.pytorch.org/docs/stable/generated/torch.histogram.html>`_.
    """
    values = elements(input)
    if not isinstance(bins, Tensor) and values.dtype not in (np.float32, np.float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{input._type.dtype.scalar_name}'")
    check_kinds("histogram_cpu", "f", values)
    weights = None if weight is None else elements(weight)
    if isinstance(bins, Tensor):
        edges = elements(bins)
        counts, _ = np.histogram(values, edges, weights=weights)
    else:
        low, high = (0, 0 if values.size else 1) if range is None else range
        low, high = _range_of(values, low, high, "torch.histogramdd")
        edges = np.linspace(low, high, bins + 1, dtype=values.dtype)
        counts = _binned(values, bins, low, high, weights)
    counts = counts.astype(values.dtype)
    if density:
        counts = counts / counts.sum() / np.diff(edges)
    operands = [x for x in (input, bins, weight) if isinstance(x, Tensor)]
    operation = _HISTOGRAMS[len(operands) - 1]
    return return_types.histogram(given_by(operation, operands, counts, edges, dtype=input._type.dtype))


def _axis_edges(values: np.ndarray, bins: Any, bounds: Any, axis: int) -> np.ndarray:
    """The edges along an axis, from the coordinates of the points."""
    if isinstance(bins, Tensor):
        return elements(bins)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {axis}")
    low, high = (0, 0 if values.size else 1) if bounds is None else bounds[2 * axis : 2 * axis + 2]
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {axis}"
        )
    low, high = _range_of(values, low, high, "torch.histogramdd")
    return np.linspace(low, high, bins + 1, dtype=values.dtype)


_COUNTED = {
    (kind, count): underived(f"_histogramdd_from_bin_{kind}", NOT_IMPLEMENTED, *("self", "weight")[:count])
    for kind in ("cts", "tensors")
    for count in (1, 2)
}
_EDGES = [underived("_histogramdd_bin_edges", NOT_IMPLEMENTED, *("self", "weight")[:count]) for count in (1, 2)]


@composite(method=False)
def histogramdd(input: Array, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """The number of points in each cell of a grid, and the edges along each axis.

    Arguments:
      input: the points, with their coordinates along the last axis.
      bins: the number of equal bins of each axis, one for all or a sequence; or a sequence of tensors of edges.
      range: the first and the last edge of each axis, one after the other.
      weight: the weight of each point.
      density: normalise to an integral of 1.

    Raises:
      RuntimeError: the lengths do not agree with the number of coordinates, or a range is empty.

    >>> import fgrad.torch as torch
    >>> torch.histogramdd(torch.tensor([[0., 1.], [1., 0.], [2., 0.], [2., 2.]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [2., 1.]])

    Source: `torch.histogramdd <https://docs.pytorch.org/docs/2.13/generated/torch.histogramdd.html>`_.
    """
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    axes = input._type.shape[-1]
    bins_of_axes = [bins] * axes if isinstance(bins, int) else list(bins)
    if len(bins_of_axes) != axes:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * axes:
        raise RuntimeError(
            f"torch.histogramdd: for a {axes}-dimensional histogram range should have {2 * axes} elements, but got "
            f"{len(range)}"
        )
    if weight is not None and weight._type.shape != input._type.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(input.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )
    check_wide("histogramdd", elements(input))
    points = elements(input).reshape(-1, axes)
    edges = [_axis_edges(points[:, i], axis_edges, range, i) for i, axis_edges in enumerate(bins_of_axes)]
    bin_indices = [_bin_index(points[:, i], axis_edges) for i, axis_edges in enumerate(edges)]
    inside = np.all(
        [(index >= 0) & (index < len(axis_edges) - 1) for index, axis_edges in zip(bin_indices, edges, strict=True)], 0
    )
    shape = tuple([len(axis_edges) - 1 for axis_edges in edges])
    cells = np.ravel_multi_index([index[inside] for index in bin_indices], shape)
    weights = None if weight is None else elements(weight).reshape(-1)[inside]
    counts = np.bincount(cells, weights, math.prod(shape)).reshape(shape).astype(points.dtype)
    if density:
        with np.errstate(invalid="ignore"):
            counts = counts / counts.sum()
        for i, axis_edges in enumerate(edges):
            counts = counts / np.diff(axis_edges).reshape([-1 if i == j else 1 for j in np.arange(axes)])
    dtype = input._type.dtype
    operands = (input,) if weight is None else (input, weight)
    operation = _COUNTED["tensors" if isinstance(bins_of_axes[0], Tensor) else "cts", len(operands)]
    hist = given_by(operation, operands, counts, dtype=dtype)
    edge_tensors = [
        tensor_beside(input, axis_edges, dtype)
        if isinstance(axis_bins, Tensor)
        else given_by(_EDGES[len(operands) - 1], operands, axis_edges, dtype=dtype)
        for axis_bins, axis_edges in zip(bins_of_axes, edges, strict=True)
    ]
    return return_types.histogramdd((hist, tuple(edge_tensors)))


def _bin_index(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The index of each value's bin; the last bin includes its right edge."""
    index = np.searchsorted(edges, values, side="right") - 1
    return index - (values == edges[-1])
