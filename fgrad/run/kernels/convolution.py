"""Convolutions: what a window reads is laid out as a column, and a product of matrices does the rest.

Along one spatial dimension, with stride ``s``, input dilation ``d``, kernel dilation ``r`` and low padding ``p``, the
product ``x[j] w[k]`` is added to ``out[i]`` where ``i s + k r - p = j d`` (see ``rules/convolution.py``).

NOTE [Phases]
An input dilation puts zeros between the elements; a product with these would be ``d`` times the work in each dimension.
Instead the results are cut into phases, ``i = a + q t`` with ``t = d / gcd(s, d)``: all results of one phase meet
elements, and not zeros, with the same places of the kernel, ``k = b + l u`` with ``u = d / gcd(r, d)``.  Then

    j = (a s + b r - p) / d  +  q (s t / d)  +  l (r u / d) ,

which is a convolution without input dilation, of a part of the kernel.  So is a transposed convolution, and so is the
derivative of a convolution with strides with regard to its input.

NOTE [Columns]
Columns are copied in blocks that stay in the processor's cache.  NumPy copies quickly along an axis that is long: that
of the results in a convolution of small kernels, that of the kernel where its derivative with regard to the kernel is
computed (``rules/convolution.py``).  Where a feature is read by one group alone (a depthwise convolution), there is no
product of matrices, and the places of the kernel are gone through one by one.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.lib.stride_tricks import as_strided

from fgrad.graph.op import Op
from fgrad.run.kernels.kernel import FLOATS, MOVED, SUPPORTED, Entry, Kernel, flushing

#: the elements of a block of columns
BLOCK = 1 << 19
#: nanoseconds that a multiplication takes where BLAS has no product for it
MULTIPLIED = 1.0
#: kernels of so many places at most are gone through one by one
PLACES = 64


@frozen
class Phase:
    """Results and places of the kernel that belong together along one dimension, see NOTE [Phases].

    Attributes:
      results, places: which results and which places of the kernel these are.
      count, taps: how many there are of both.
      start: the element that the first result reads at the first place.
      stride, dilation: how far apart are what neighbouring results and neighbouring places read.
    """

    results: slice
    places: slice
    count: int
    taps: int
    start: int
    stride: int
    dilation: int

    @property
    def span(self) -> int:
        """From the first element that is read to the last one."""
        return (self.count - 1) * self.stride + (self.taps - 1) * self.dilation + 1


def phases(kernel: int, results: int, stride: int, low: int, spread: int, dilation: int) -> list[Phase]:
    """The phases along one dimension that meet any elements."""
    period, step = spread // math.gcd(stride, spread), spread // math.gcd(dilation, spread)
    found = []
    for first in range(min(period, results)):
        for place in range(min(step, kernel)):
            start = first * stride + place * dilation - low
            if start % spread == 0:
                found.append(
                    Phase(
                        slice(first, None, period),
                        slice(place, None, step),
                        len(range(first, results, period)),
                        len(range(place, kernel, step)),
                        start // spread,
                        stride * period // spread,
                        dilation * step // spread,
                    )
                )
    return found


def _read(x: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """The elements that a phase reads, over the last axes of ``x``, with zeros beyond the edges."""
    sizes = x.shape[x.ndim - len(along) :]
    inside = tuple([slice(max(p.start, 0), max(p.start + p.span, 0)) for p in along])
    if all(p.start >= 0 and p.start + p.span <= n for p, n in zip(along, sizes, strict=True)):
        return x[(..., *inside)]
    padded = np.zeros(x.shape[: x.ndim - len(along)] + tuple([p.span for p in along]), x.dtype)
    source = x[(..., *inside)]
    target = [
        slice(before, before + n)
        for before, n in zip([max(-p.start, 0) for p in along], source.shape[x.ndim - len(along) :], strict=True)
    ]
    padded[(..., *target)] = source
    return padded


def _windows(x: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """From axes that were read: first those of the results, then those of the kernel's places."""
    outer = x.ndim - len(along)
    counts, taps = tuple([p.count for p in along]), tuple([p.taps for p in along])
    steps = x.strides[outer:]
    results = tuple([n * p.stride for n, p in zip(steps, along, strict=True)])
    places = tuple([n * p.dilation for n, p in zip(steps, along, strict=True)])
    return as_strided(x, x.shape[:outer] + counts + taps, x.strides[:outer] + results + places, writeable=False)


def _by_columns(x: np.ndarray, w: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """From ``x[n, g, c, ...]`` and ``w[g, o, c, ...]`` to the results ``[n, g, o, ...]``."""
    windows = _windows(_read(x, along), along)
    n, groups = windows.shape[:2]
    dims, counts = len(along), windows.shape[3 : 3 + len(along)]
    results, places = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    matrix = w.reshape(groups, w.shape[1], -1)
    rows, width = math.prod(counts), matrix.shape[2]
    at_once = min(n, max(1, BLOCK // (groups * rows * width)))
    # columns or rows: along the axis that is longer, see NOTE [Columns]
    as_rows = along[-1].count < along[-1].taps
    order = (1, 0, *results, 2, *places) if as_rows else (1, 2, *places, 0, *results)
    out = np.empty((n, groups, w.shape[1], *counts), x.dtype)
    for first in range(0, n, at_once):
        block = windows[first : first + at_once].transpose(order)
        size = min(at_once, n - first)
        if as_rows:
            product = matrix @ block.reshape(groups, size * rows, width).swapaxes(1, 2)
        else:
            product = matrix @ block.reshape(groups, width, size * rows)
        out[first : first + size] = np.moveaxis(product.reshape(groups, w.shape[1], size, *counts), 2, 0)
    return out


def _by_places(x: np.ndarray, w: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """The same of one feature for each group: place by place of the kernel."""
    n, groups, dims = x.shape[0], x.shape[1], len(along)
    read, taps = _read(x[:, :, 0], along), w[:, :, 0]
    # along the longer one of the groups and the last dimension
    grouped_last = along[-1].count < groups
    if grouped_last:
        read = np.ascontiguousarray(np.moveaxis(read, 1, -1))[:, None]
        taps = np.ascontiguousarray(np.moveaxis(taps, 0, -1))
    else:
        read = read[:, :, None]
    counts = [p.count for p in along]
    out = total = None
    for offset in itertools.product(*[range(p.taps) for p in along]):
        place = tuple(
            [
                slice(i * p.dilation, i * p.dilation + (p.count - 1) * p.stride + 1, p.stride)
                for i, p in zip(offset, along, strict=True)
            ]
        )
        if grouped_last:
            # [n, o, ..., g]
            factor = taps[(slice(None), *offset)].reshape(-1, *[1] * dims, groups)
            part = read[(slice(None), slice(None), *place)]
        else:
            # [n, g, o, ...]
            factor = taps[(..., *offset)].reshape(groups, -1, *[1] * dims)
            part = read[(..., *place)]
        if total is None:
            total = part * factor
            out = np.empty_like(total)
        else:
            total += np.multiply(part, factor, out=out)
    assert total is not None
    found = np.moveaxis(total, -1, 1) if grouped_last else total
    return found.reshape(n, groups, -1, *counts)


def _convolution(op: Op) -> Kernel | None:
    params, (x_type, w_type), out_type = op.params, op.in_types, op.out_types[0]
    dtype = out_type.dtype
    if not x_type.dtype == w_type.dtype == dtype or dtype not in SUPPORTED:
        return None
    x_spec, w_spec, out_spec = params["dimension_numbers"]
    groups, batches = params["feature_group_count"], params["batch_group_count"]
    shape = [out_type.shape[axis] for axis in out_spec]
    order = np.argsort(out_spec)
    if 0 in (*x_type.shape, *w_type.shape, *out_type.shape):
        return Kernel(lambda x, w: np.zeros(out_type.shape, dtype), lambda x, w: np.zeros(out_type.shape, dtype), MOVED)
    spatial = zip(
        [w_type.shape[axis] for axis in w_spec[2:]],
        shape[2:],
        params["window_strides"],
        [low for low, _ in params["padding"]],
        params["lhs_dilation"],
        params["rhs_dilation"],
        strict=True,
    )
    parts = list(itertools.product(*[phases(*axis) for axis in spatial]))
    sizes, taps = [x_type.shape[axis] for axis in x_spec], [w_type.shape[axis] for axis in w_spec]
    n, features = sizes[0] // batches, sizes[1] // groups
    together = groups * batches
    split = (batches, n, features) if batches > 1 else (n, groups, features)
    single = features == 1 and math.prod(taps[2:]) <= PLACES
    convolved = _by_places if single else _by_columns
    whole = set(params["lhs_dilation"]) <= {1}

    def compute(x: Any, w: Any) -> Any:
        x = x.transpose(x_spec).reshape(*split, *sizes[2:])
        if batches > 1:
            x = x.swapaxes(0, 1)
        w = w.transpose(w_spec).reshape(together, taps[0] // together, *taps[1:])
        if whole:
            out = convolved(x, w, parts[0])
        else:
            out = np.zeros((n, together, w.shape[1], *shape[2:]), dtype)
            for part in parts:
                results, places = (tuple([getattr(p, name) for p in part]) for name in ("results", "places"))
                out[(..., *results)] = convolved(x, w[(..., *places)], part)
        return out.reshape(shape).transpose(order)

    products = out_type.size * features * sum(math.prod([p.taps * p.count for p in part]) for part in parts)
    products //= math.prod(shape[2:])
    largest = max(x_type.size, w_type.size, out_type.size)
    cost = _cost(parts, products, together, taps[0] // together, single, dtype)
    return Kernel(compute, flushing(compute), cost / largest, exact=False)


def _cost(parts: Sequence[Any], products: int, groups: int, features: int, single: bool, dtype: np.dtype) -> float:
    """Nanoseconds that NumPy takes longer than a compiled program."""
    if dtype not in FLOATS and dtype.kind != "c":
        return MULTIPLIED * products
    if single:
        return MOVED * products
    # each column is copied, for as many products as there are features
    return 10_000 * len(parts) + MOVED * products / features + 500 * groups


CONVOLUTION: dict[str, Entry] = {"conv_general_dilated": _convolution}
