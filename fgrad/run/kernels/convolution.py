"""Convolutions as matrix products: the elements that a window reads become a column.

Along one spatial dimension, with stride ``s``, input dilation ``d``, kernel dilation ``r`` and low padding ``p``, the
product ``x[j] w[k]`` is added to ``out[i]`` where ``i s + k r - p = j d`` (see ``rules/convolution.py``).

NOTE [Phases]
Input dilation puts zeros between the elements; multiplying these would take ``d`` times the work in each dimension.
Instead the results are split into phases, ``i = a + q t`` with ``t = d / gcd(s, d)``: for all results of one phase the
same taps of the kernel, ``k = b + l u`` with ``u = d / gcd(r, d)``, meet elements and not zeros.  Then

    j = (a s + b r - p) / d  +  q (s t / d)  +  l (r u / d) ,

which is a convolution of part of the kernel, without input dilation.  Transposed convolutions are computed like this,
and so is the derivative of a strided convolution with respect to its input.

NOTE [Columns]
Apart from the product, the time goes into copying the columns.  They are copied in blocks that fit in the cache, along
the longer axis: that of the results for small kernels, that of the kernel in the derivative with respect to a kernel.
If there are fewer output features than input features, it is cheaper to multiply first and add the columns of the
product at their positions in the result, as in the derivative of a network's first layer with respect to the image.  A
depthwise convolution, in which each feature is read alone, is a loop over the taps.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen
from numpy.lib.stride_tricks import as_strided

from fgrad.graph.op import Op
from fgrad.run.kernels.helpers import PART, slices_of, together
from fgrad.run.kernels.kernel import FLOATS, MOVED, SUPPORTED, TABLE, Entry, Kernel, flushing, same
from fgrad.run.kernels.one_thread import THREADS, on_one_thread

#: the elements of a block of columns, and of one with several groups, in which each product is smaller
BLOCK, GROUPED_BLOCK = 1 << 19, 1 << 17
#: a depthwise convolution is a loop over taps up to this many taps, and this many output features per input feature
TAPS, MULTIPLE = 64, 4
#: and for dtypes that BLAS multiplies, up to this many results: for more, BLAS takes less time
FEW = 256
#: nanoseconds per multiplication in dtypes that BLAS lacks, per element of the columns, and per phase
MULTIPLICATION, COLUMN, PHASE = 1.0, 0.25, 20_000.0
#: extra nanoseconds per element and tap of a loop over taps, which a compiled program fuses
TAP = 0.5
#: the multiplications in a part of a loop over taps; and so many indices per part may be cut unevenly
TAPS_PART, UNEVEN = PART >> 3, 4


@frozen
class Axis:
    """A convolution along one dimension."""

    size: int
    taps: int
    #: how many results there are
    count: int
    stride: int
    low: int
    input_dilation: int
    dilation: int

    def phases(self) -> "list[Phase]":
        """The phases that read any elements."""
        dilation = self.input_dilation
        period, step = dilation // math.gcd(self.stride, dilation), dilation // math.gcd(self.dilation, dilation)
        phases = []
        for first, tap in itertools.product(range(min(period, self.count)), range(min(step, self.taps))):
            start = first * self.stride + tap * self.dilation - self.low
            if start % dilation == 0:
                results, taps = slice(first, self.count, period), slice(tap, self.taps, step)
                steps = self.stride * period // dilation, self.dilation * step // dilation
                phases.append(Phase(results, taps, start // dilation, *steps))
        return phases

    def targets(self) -> list[tuple[slice, slice]]:
        """For each tap of a convolution without stride, the elements it reads and the results it adds to."""
        targets = []
        dilation = self.input_dilation
        for tap in range(self.taps):
            shift = self.low - tap * self.dilation  # element j goes to result j * dilation + shift
            first = max(0, -(shift // dilation))
            last = max(first, min(self.size, -((shift - self.count) // dilation)))
            start, end = first * dilation + shift, last * dilation + shift
            targets.append((slice(first, last), slice(start, max(end, start), dilation)))
        return targets


@frozen
class Phase:
    """The results of one phase along one dimension, and their taps: see NOTE [Phases].

    The first result reads the element ``start`` at the first tap.  Neighbouring results read elements ``stride`` apart,
    and neighbouring taps elements ``dilation`` apart.
    """

    results: slice
    tap_slice: slice
    start: int
    stride: int
    dilation: int

    @property
    def count(self) -> int:
        return len(range(self.results.start, self.results.stop, self.results.step))

    @property
    def taps(self) -> int:
        return len(range(self.tap_slice.start, self.tap_slice.stop, self.tap_slice.step))

    @property
    def end(self) -> int:
        """One beyond the last element that is read."""
        return self.start + (self.count - 1) * self.stride + (self.taps - 1) * self.dilation + 1


#: writes, from ``x[n, g, c, ...]`` and ``w[g, o, c, ...]``, the results ``out[n, g, o, ...]``
Convolve = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


def _read(x: np.ndarray, along: Sequence[Phase]) -> np.ndarray:
    """The elements that a phase reads along the last axes of ``x``, with zeros beyond the edges."""
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
    """A view with two axes for each one read: first those of the results, then those of the taps."""
    outer, steps = x.ndim - len(along), x.strides[-len(along) :]
    results = [n * p.stride for n, p in zip(steps, along, strict=True)]
    taps = [n * p.dilation for n, p in zip(steps, along, strict=True)]
    shape = (*x.shape[:outer], *[p.count for p in along], *[p.taps for p in along])
    return as_strided(x, shape, (*x.strides[:outer], *results, *taps), writeable=False)


def _blocks(n: int, size: int, limit: int) -> Iterator[slice]:
    """Slices of an axis of length ``n``, of at most ``limit`` elements if each index has ``size``."""
    length = min(n, max(1, limit // size))
    return (slice(first, min(first + length, n)) for first in range(0, n, length))


def _by_columns(x: np.ndarray, w: np.ndarray, out: np.ndarray, along: Sequence[Phase]) -> None:
    windows, dims = _windows(_read(x, along), along), len(along)
    n, groups, outputs = windows.shape[0], *w.shape[:2]
    matrix = np.ascontiguousarray(w.reshape(groups, outputs, -1))  # BLAS takes no negative strides
    counts, width = windows.shape[3 : 3 + dims], matrix.shape[2]
    results, taps = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    as_rows = along[-1].count < along[-1].taps
    order = (1, 0, *results, 2, *taps) if as_rows else (1, 2, *taps, 0, *results)

    def product(group: slice, block: slice) -> np.ndarray:
        part = windows[block, group].transpose(order)
        size = part.shape[0]
        columns = part.reshape(size, -1, width).swapaxes(1, 2) if as_rows else part.reshape(size, width, -1)
        return (matrix[group] @ columns).reshape(size, outputs, -1, *counts)

    # a call per block frees its columns before the next ones are allocated, which reuse their memory
    size = width * math.prod(counts)
    into = out.transpose(1, 2, 0, *range(3, 3 + dims))
    for group in _blocks(groups, n * size, GROUPED_BLOCK):
        for block in _blocks(n, (group.stop - group.start) * size, BLOCK):
            into[group, :, block] = product(group, block)


def _by_adding(axes: Sequence[Axis]) -> Convolve:
    """Multiply first and add afterwards, without stride: see NOTE [Columns]."""
    dims, targets = len(axes), [axis.targets() for axis in axes]

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        n, (groups, outputs) = x.shape[0], w.shape[:2]
        # a reversed kernel, as in derivatives, is read in memory order to avoid a copy
        backwards = [step < 0 for step in w.strides[3:]]
        w = w[(..., *[slice(None, None, -1) if back else slice(None) for back in backwards])]
        in_order = [steps[::-1] if back else steps for steps, back in zip(targets, backwards, strict=True)]
        matrix = np.moveaxis(w, 2, -1).reshape(groups, -1, w.shape[2])
        out[...] = 0
        sums = out.transpose(1, 2, 0, *range(3, 3 + dims))
        for block in _blocks(n, groups * matrix.shape[1] * math.prod(x.shape[3:]), BLOCK):
            part = x[block].transpose(1, 2, 0, *range(3, 3 + dims))
            product = matrix @ part.reshape(groups, x.shape[2], -1)
            product = product.reshape(groups, outputs, *w.shape[3:], *part.shape[2:])
            for offset in itertools.product(*map(range, w.shape[3:])):
                read, into = zip(*[steps[i] for steps, i in zip(in_order, offset, strict=True)], strict=True)
                every = slice(None)
                sums[(every, every, block, *into)] += product[(every, every, *offset, every, *read)]

    return convolve


def _by_taps(x: np.ndarray, w: np.ndarray, out: np.ndarray, along: Sequence[Phase]) -> None:
    """A loop over the taps, for one feature per group."""
    read, taps, dims, groups = _read(x[:, :, 0], along), w[:, :, 0], len(along), x.shape[1]
    groups_last = out.strides[1] < out.strides[-1]
    if groups_last:
        read, taps = (np.ascontiguousarray(np.moveaxis(a, axis, -1)) for a, axis in ((read, 1), (taps, 0)))
        out = np.moveaxis(out, 1, -1)
    read = np.expand_dims(read, 1 if groups_last else 2)
    term = None
    for offset in itertools.product(*[range(p.taps) for p in along]):
        starts = [i * p.dilation for i, p in zip(offset, along, strict=True)]
        position = [slice(i, i + (p.count - 1) * p.stride + 1, p.stride) for i, p in zip(starts, along, strict=True)]
        if groups_last:
            part, factor = read[(slice(None), slice(None), *position)], taps[(slice(None), *offset)]
            factor = factor.reshape(-1, *[1] * dims, groups)
        else:
            part, factor = read[(..., *position)], taps[(..., *offset)].reshape(groups, -1, *[1] * dims)
        if term is None:
            np.multiply(part, factor, out=out)
            term = np.empty_like(out)
        else:
            out += np.multiply(part, factor, out=term)


def _in_phases(convolve: Callable[..., None], axes: Sequence[Axis], parts: Sequence[Sequence[Phase]]) -> Convolve:
    """Phase by phase."""
    if all(axis.input_dilation == 1 for axis in axes):
        return partial(convolve, along=parts[0])
    results = math.prod([axis.count for axis in axes])
    complete = sum([math.prod([p.count for p in part]) for part in parts]) == results

    def compute(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        if not complete:
            out[...] = 0
        for part in parts:
            convolve(x, w[(..., *[p.tap_slice for p in part])], out[(..., *[p.results for p in part])], part)

    return compute


def _in_parts(convolve: Convolve, shape: Sequence[int], count: int) -> Convolve:
    """Parts of the results ``[n, g, o, ...]``, computed by helpers: see NOTE [Helpers].

    They are examples or groups, or else features, for each of which the columns are copied again.
    """
    if count < 2:
        return convolve
    even = [axis for axis in range(3) if shape[axis] % count == 0 or shape[axis] >= UNEVEN * count]
    if not even:
        return convolve
    axis = even[0]
    slices = slices_of(shape[axis], count)
    every = slice(None)

    def compute(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        parts = []
        for s in slices:
            of_x, of_w, of_out = (s, every), every, (s, every, every)
            if axis == 1:
                of_x, of_w, of_out = (every, s), s, (every, s, every)
            elif axis == 2:
                of_x, of_w, of_out = every, (every, s), (every, every, s)
            parts.append(partial(convolve, x[of_x], w[of_w], out[of_out]))
        together(parts)

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
    strides, pads, input_dilations, dilations = (params[name] for name in names)
    lows = [low for low, _ in pads]
    axes = [Axis(*a) for a in zip(sizes, taps, shape[2:], strides, lows, input_dilations, dilations, strict=True)]
    parts = list(itertools.product(*[axis.phases() for axis in axes]))
    # compare the elements copied: the columns, and the kernel if its layout requires a copy
    transposed = w_spec[0] > w_spec[1]
    read = sum([math.prod([p.taps * p.count for p in part]) for part in parts]) * width * groups * n // batches
    added = math.prod(taps + sizes) * outputs * n // batches
    cost = COLUMN * read + PHASE * (len(parts) - 1)
    depthwise = width == 1 and outputs <= MULTIPLE * groups and math.prod(taps) <= TAPS
    by_taps = depthwise and (dtype not in FLOATS or math.prod(shape[2:]) <= FEW)
    dims = len(axes)
    multiplications = read * outputs // groups
    count = min(THREADS, multiplications // PART)
    # the order in memory of ``out[n, g, o, ...]``
    memory = (1, 2, 0, *range(3, 3 + dims))
    if by_taps:
        convolve = _in_phases(_by_taps, axes, parts)
        cost = TAP * multiplications
        count = min(THREADS, multiplications // TAPS_PART)
        memory = (0, 2, *range(3, 3 + dims), 1) if shape[-1] < groups else tuple(range(3 + dims))
    elif (
        not depthwise
        and set(strides) == {1}
        and added + w_type.size * (not transposed) < read + w_type.size * transposed
    ):
        convolve, cost = _by_adding(axes), COLUMN * added
    else:
        convolve = _in_phases(_by_columns, axes, parts)
    out_shape = (n // batches, *w_shape[:2], *shape[2:])
    convolve = _in_parts(convolve, out_shape, count)
    in_memory, back = [out_shape[axis] for axis in memory], np.argsort(memory)
    order = np.argsort(out_spec)

    def compute(x: Any, w: Any) -> Any:
        x = x.transpose(x_spec).reshape(x_shape)
        if batches > 1:
            x = x.swapaxes(0, 1)
        out = np.empty(in_memory, dtype).transpose(back)
        convolve(x, w.transpose(w_spec).reshape(w_shape), out)
        return out.reshape(shape).transpose(order)

    if dtype not in FLOATS and dtype.kind != "c":
        cost = MULTIPLICATION * multiplications
    elif groups > 1 and not by_taps:
        cost = 0  # XLA copies the columns too
    compute = on_one_thread(compute)
    return Kernel(compute, flushing(compute), cost / max([t.size for t in (x_type, w_type, out_type)]), exact=False)


CONVOLUTION: dict[str, Entry] = {"conv_general_dilated": _convolution}
TABLE.update(CONVOLUTION)
