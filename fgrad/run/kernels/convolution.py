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
What costs time beside the product is to copy the columns.  It is done in blocks that stay in the processor's cache, and
along the axis that is longer: that of the results where kernels are small, that of the kernel in the derivative with
regard to one.  Where the results have fewer features than what is read, the product is made first and its columns are
added where they belong: there are fewer of them.  So is the derivative of a network's first layer with regard to the
image.  Of a depthwise convolution, where each feature is read alone, the places of the kernel are gone through.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.lib.stride_tricks import as_strided

from fgrad.graph.op import Op
from fgrad.run.kernels.kernel import FLOATS, MOVED, SUPPORTED, TABLE, Entry, Kernel, flushing, same
from fgrad.run.kernels.one_thread import on_one_thread

#: the elements of a block of columns, and of one of several groups, for which BLAS does less with each
BLOCK, GROUPED = 1 << 19, 1 << 17
#: kernels of so many places at most are gone through one by one, for so many results of each feature
PLACES, MULTIPLE = 64, 4
#: where BLAS has a product, which takes less time of more results than these
FEW = 256
#: nanoseconds that a multiplication takes where BLAS has no product, that a column takes for an element, and a phase
MULTIPLIED, COLUMN, PHASE = 1.0, 0.25, 20_000.0
#: and that a place of the kernel takes for an element, more than in a compiled program, which goes through them at once
PLACED = 0.5


@frozen
class Axis:
    """A convolution along one dimension: the elements, the places of the kernel, the results, and what goes where."""

    size: int
    taps: int
    count: int
    stride: int
    low: int
    spread: int
    dilation: int

    def phases(self) -> "list[Phase]":
        """The phases that meet any elements."""
        period = self.spread // math.gcd(self.stride, self.spread)
        step = self.spread // math.gcd(self.dilation, self.spread)
        found = []
        for first, place in itertools.product(range(min(period, self.count)), range(min(step, self.taps))):
            start = first * self.stride + place * self.dilation - self.low
            if start % self.spread == 0:
                results, places = slice(first, self.count, period), slice(place, self.taps, step)
                reach = self.stride * period // self.spread, self.dilation * step // self.spread
                found.append(Phase(results, places, start // self.spread, *reach))
        return found

    def written(self) -> list[tuple[slice, slice]]:
        """Without stride: for each place of the kernel, which elements go to which results."""
        found = []
        for place in range(self.taps):
            shift = self.low - place * self.dilation  # element j goes to result j * spread + shift
            first = max(0, -(shift // self.spread))
            last = max(first, min(self.size, -((shift - self.count) // self.spread)))
            start, end = first * self.spread + shift, last * self.spread + shift
            found.append((slice(first, last), slice(start, max(end, start), self.spread)))
        return found


@frozen
class Phase:
    """Results and places of the kernel that belong together along one dimension, see NOTE [Phases].

    The first result reads at the first place the element ``start``; what neighbouring results and neighbouring places
    read is ``stride`` and ``dilation`` apart.
    """

    results: slice
    places: slice
    start: int
    stride: int
    dilation: int

    @property
    def count(self) -> int:
        return len(range(self.results.start, self.results.stop, self.results.step))

    @property
    def taps(self) -> int:
        return len(range(self.places.start, self.places.stop, self.places.step))

    @property
    def end(self) -> int:
        """Behind the last element that is read."""
        return self.start + (self.count - 1) * self.stride + (self.taps - 1) * self.dilation + 1


# What follows computes, from ``x[n, g, c, ...]`` and ``w[g, o, c, ...]``, the results ``[n, g, o, ...]``.
Convolved = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _read(x: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """The elements that a phase reads, over the last axes of ``x``, with zeros beyond the edges."""
    sizes = x.shape[-len(along) :]
    source = x[(..., *[slice(max(p.start, 0), max(p.end, 0)) for p in along])]
    if all(p.start >= 0 and p.end <= n for p, n in zip(along, sizes, strict=True)):
        return source
    padded = np.zeros((*x.shape[: -len(along)], *[p.end - p.start for p in along]), x.dtype)
    starts = [max(-p.start, 0) for p in along]
    inside = [slice(start, start + n) for start, n in zip(starts, source.shape[-len(along) :], strict=True)]
    padded[(..., *inside)] = source
    return padded


def _windows(x: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """From the axes that were read: first those of the results, then those of the kernel's places."""
    outer, steps = x.ndim - len(along), x.strides[-len(along) :]
    results = [n * p.stride for n, p in zip(steps, along, strict=True)]
    places = [n * p.dilation for n, p in zip(steps, along, strict=True)]
    shape = (*x.shape[:outer], *[p.count for p in along], *[p.taps for p in along])
    return as_strided(x, shape, (*x.strides[:outer], *results, *places), writeable=False)


def _blocks(n: int, size: int, most: int) -> Iterator[slice]:
    """An axis in blocks of at most so many elements, of which each of ``n`` takes ``size``."""
    at_once = min(n, max(1, most // size))
    return (slice(first, min(first + at_once, n)) for first in range(0, n, at_once))


def _by_columns(x: np.ndarray, w: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    windows, dims = _windows(_read(x, along), along), len(along)
    n, groups, outputs = windows.shape[0], *w.shape[:2]
    matrix = np.ascontiguousarray(w.reshape(groups, outputs, -1))  # BLAS reads no kernel backwards
    counts, width = windows.shape[3 : 3 + dims], matrix.shape[2]
    results, places = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    as_rows = along[-1].count < along[-1].taps
    order = (1, 0, *results, 2, *places) if as_rows else (1, 2, *places, 0, *results)

    def product(some: slice, block: slice) -> np.ndarray:
        part = windows[block, some].transpose(order)
        number = part.shape[0]
        columns = part.reshape(number, -1, width).swapaxes(1, 2) if as_rows else part.reshape(number, width, -1)
        return (matrix[some] @ columns).reshape(number, outputs, -1, *counts)

    # a call for each block: its columns are gone before the next ones are made, which take over their memory
    size = width * math.prod(counts)
    found = np.empty((groups, outputs, n, *counts), x.dtype)
    for some in _blocks(groups, n * size, GROUPED):
        for block in _blocks(n, (some.stop - some.start) * size, BLOCK):
            found[some, :, block] = product(some, block)
    return np.moveaxis(found, 2, 0)


def _by_adding(axes: Sequence[Axis]) -> Convolved:
    """The products first, and then the sums; no strides."""
    dims, counts, written = len(axes), [axis.count for axis in axes], [axis.written() for axis in axes]

    def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        n, (groups, outputs) = x.shape[0], w.shape[:2]
        # a kernel that lies in memory the other way round, as in derivatives, is read as it lies: there is no copy
        backwards = [step < 0 for step in w.strides[3:]]
        w = w[(..., *[slice(None, None, -1) if back else slice(None) for back in backwards])]
        places = [steps[::-1] if back else steps for steps, back in zip(written, backwards, strict=True)]
        matrix = np.moveaxis(w, 2, -1).reshape(groups, -1, w.shape[2])
        found = np.zeros((groups, outputs, n, *counts), x.dtype)
        for block in _blocks(n, groups * matrix.shape[1] * math.prod(x.shape[3:]), BLOCK):
            part = x[block].transpose(1, 2, 0, *range(3, 3 + dims))
            product = matrix @ part.reshape(groups, x.shape[2], -1)
            product = product.reshape(groups, outputs, *w.shape[3:], *part.shape[2:])
            for offset in itertools.product(*map(range, w.shape[3:])):
                read, into = zip(*[steps[i] for steps, i in zip(places, offset, strict=True)], strict=True)
                every = slice(None)
                found[(every, every, block, *into)] += product[(every, every, *offset, every, *read)]
        return np.moveaxis(found, 2, 0)

    return convolved


def _by_places(x: np.ndarray, w: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """Of one feature for each group."""
    read, taps, dims, groups = _read(x[:, :, 0], along), w[:, :, 0], len(along), x.shape[1]
    # with the longer one of the groups and the last dimension as the last axis
    groups_last = along[-1].count < groups
    if groups_last:
        read, taps = (np.ascontiguousarray(np.moveaxis(a, axis, -1)) for a, axis in ((read, 1), (taps, 0)))
    read = np.expand_dims(read, 1 if groups_last else 2)
    total = term = None
    for offset in itertools.product(*[range(p.taps) for p in along]):
        starts = [i * p.dilation for i, p in zip(offset, along, strict=True)]
        place = [slice(i, i + (p.count - 1) * p.stride + 1, p.stride) for i, p in zip(starts, along, strict=True)]
        if groups_last:
            part, factor = read[(slice(None), slice(None), *place)], taps[(slice(None), *offset)]
            factor = factor.reshape(-1, *[1] * dims, groups)
        else:
            part, factor = read[(..., *place)], taps[(..., *offset)].reshape(groups, -1, *[1] * dims)
        if total is None:
            total = part * factor
            term = np.empty_like(total)
        else:
            total += np.multiply(part, factor, out=term)
    assert total is not None
    return np.moveaxis(total, -1, 1) if groups_last else total


def _in_phases(
    convolved: Callable[..., np.ndarray], parts: Sequence[Sequence[Phase]], shape: Sequence[int]
) -> Convolved:
    """Phase by phase, to results of this shape."""

    def compute(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        out = np.zeros(shape, x.dtype)
        for part in parts:
            out[(..., *[p.results for p in part])] = convolved(x, w[(..., *[p.places for p in part])], part)
        return out

    return compute


def _convolution(op: Op) -> Kernel | None:
    params, (x_type, w_type), out_type = op.params, op.in_types, op.out_types[0]
    dtype = out_type.dtype
    if not x_type.dtype == w_type.dtype == dtype or dtype not in SUPPORTED or out_type.ndim == 2:
        return None
    if 0 in (x_type.size, w_type.size, out_type.size):
        return same(lambda x, w: np.zeros(out_type.shape, dtype), MOVED)
    x_spec, w_spec, out_spec = params["dimension_numbers"]
    batches, groups = params["batch_group_count"], params["feature_group_count"] * params["batch_group_count"]
    shape = [out_type.shape[axis] for axis in out_spec]
    n, _, *sizes = [x_type.shape[axis] for axis in x_spec]
    outputs, width, *taps = [w_type.shape[axis] for axis in w_spec]
    x_shape = (batches, n // batches, width, *sizes) if batches > 1 else (n, groups, width, *sizes)
    w_shape = (groups, outputs // groups, width, *taps)
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    strides, pads, spreads, dilations = (params[name] for name in names)
    lows = [low for low, _ in pads]
    axes = [Axis(*a) for a in zip(sizes, taps, shape[2:], strides, lows, spreads, dilations, strict=True)]
    parts = list(itertools.product(*[axis.phases() for axis in axes]))
    # the elements of the columns, and those of the kernel where it has to be copied, too
    turned = w_spec[0] > w_spec[1]
    read = sum([math.prod([p.taps * p.count for p in part]) for part in parts]) * width * groups * n // batches
    added = math.prod(taps + sizes) * outputs * n // batches
    cost = COLUMN * read + PHASE * (len(parts) - 1)
    depthwise = width == 1 and outputs <= MULTIPLE * groups and math.prod(taps) <= PLACES
    placed = depthwise and (dtype not in FLOATS or math.prod(shape[2:]) <= FEW)
    if placed:
        convolved = _in_phases(_by_places, parts, (n // batches, *w_shape[:2], *shape[2:]))
        cost = PLACED * read * outputs / groups
    elif not depthwise and set(strides) == {1} and added + w_type.size * (not turned) < read + w_type.size * turned:
        convolved, cost = _by_adding(axes), COLUMN * added
    else:
        convolved = _in_phases(_by_columns, parts, (n // batches, *w_shape[:2], *shape[2:]))
        if set(spreads) == {1}:
            convolved = lambda x, w: _by_columns(x, w, parts[0])  # noqa: E731
    order = np.argsort(out_spec)

    def compute(x: Any, w: Any) -> Any:
        x = x.transpose(x_spec).reshape(x_shape)
        if batches > 1:
            x = x.swapaxes(0, 1)
        return convolved(x, w.transpose(w_spec).reshape(w_shape)).reshape(shape).transpose(order)

    if dtype not in FLOATS and dtype.kind != "c":
        cost = MULTIPLIED * read * outputs / groups
    elif groups > 1 and not placed:
        cost = 0  # XLA copies the columns, too
    compute = on_one_thread(compute)
    return Kernel(compute, flushing(compute), cost / max([t.size for t in (x_type, w_type, out_type)]), exact=False)


CONVOLUTION: dict[str, Entry] = {"conv_general_dilated": _convolution}
TABLE.update(CONVOLUTION)
