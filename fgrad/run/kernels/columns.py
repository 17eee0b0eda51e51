"""Convolutions as products with columns.

NOTE [Columns]
The elements that a window reads become a column, and the kernel is multiplied with all of them.  Apart from the
product, the time goes into copying the columns.  They are copied in blocks that fit in the cache, along the longer
axis: that of the results for small kernels, that of the kernel in the derivative with respect to a kernel.  A kernel of
one element reads the elements where they lie.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fgrad.run.kernels.phases import Along

#: the elements of a block of columns, and of one with several groups, in which each product is smaller
BLOCK, GROUPED_BLOCK = 1 << 19, 1 << 17

#: bytes after which addresses share their places in the cache, and how many such elements it holds
PAGE, FEW = 4096, 8

#: writes, from ``x[n, g, c, ...]`` and ``w[g, o, c, ...]``, the results ``out[n, g, o, ...]``
Convolve = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


def by_columns(outer: tuple[int, int, int], outputs: int, sizes: Sequence[int], along: Along, dtype: Any) -> Convolve:
    """The convolution for one phase; ``outer`` is ``n, g, c``, and ``sizes`` are those of the elements."""
    n, groups, features = outer
    dims, counts = len(along), [p.count for p in along]
    width, size = features * math.prod([p.taps for p in along]), math.prod(counts)
    windows_of = windows_in(outer, sizes, (), along, dtype)
    results, taps = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    as_rows = along[-1].count < along[-1].taps
    order = (1, 0, *results, 2, *taps) if as_rows else (1, 2, *taps, 0, *results)
    blocks = [
        (group, block)
        for group in blocks_of(groups, n * width * size, GROUPED_BLOCK)
        for block in blocks_of(n, (group.stop - group.start) * width * size, BLOCK)
    ]
    features_first = (1, 2, 0, *results)

    def multiply(matrix: np.ndarray, part: np.ndarray, into: np.ndarray) -> None:
        # a call per block frees its columns before the next ones are allocated, which reuse their memory
        count = len(matrix)
        columns = part.reshape(count, -1, width).swapaxes(1, 2) if as_rows else part.reshape(count, width, -1)
        if into[0, 0].flags.c_contiguous:
            np.matmul(matrix, columns, out=into.reshape(count, outputs, -1))
        else:
            into[...] = np.matmul(matrix, columns).reshape(into.shape)

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        windows = windows_of(x)
        matrix = np.ascontiguousarray(w.reshape(groups, outputs, width))  # BLAS takes no negative strides
        into = out.transpose(features_first)
        for group, block in blocks:
            multiply(matrix[group], windows[block, group].transpose(order), into[group, :, block])

    return convolve


def block_of(n: int, size: int, limit: int) -> int:
    """How much of an axis of length ``n`` has at most ``limit`` elements if all of it has ``size``; at least 1."""
    return min(n, max(1, limit * n // size))


def blocks_of(n: int, size: int, limit: int) -> Iterator[slice]:
    """Slices of an axis of length ``n``, of at most ``limit`` elements if all of it has ``size``."""
    length = block_of(n, size, limit)
    return (slice(first, min(first + length, n)) for first in range(0, n, length))


def reading(
    outer: Sequence[int], sizes: Sequence[int], along: Along, dtype: Any, last: Sequence[int] = ()
) -> Callable[[np.ndarray], np.ndarray]:
    """A function that gives the elements that a phase reads, with zeros beyond the edges in a new array.

    The dimensions lie between the axes ``outer`` and ``last``.
    """
    every = [slice(None)] * len(last)
    source = (..., *[slice(max(p.start, 0), max(p.end, 0)) for p in along], *every)
    if not _beyond(sizes, along):
        return lambda x: x[source]
    ends = [(max(-p.start, 0), max(min(p.end, size) - p.start, 0)) for p, size in zip(along, sizes, strict=True)]
    inside = (..., *[slice(low, max(low, high)) for low, high in ends], *every)
    shape = (*outer, *[p.end - p.start for p in along], *last)

    def padded(x: np.ndarray) -> np.ndarray:
        out = np.zeros(shape, dtype)
        copy(x[source], out[inside])
        return out

    return padded


def copy(x: np.ndarray, out: np.ndarray) -> None:
    """Write the elements of an array to another one.

    If those along the last axis are whole pages apart, they displace each other in the cache, so a few are copied at a
    time.
    """
    if x.strides[-1] % PAGE or not x.strides[-1]:
        out[...] = x
        return
    for few in blocks_of(x.shape[-1], x.shape[-1], FEW):
        out[..., few] = x[..., few]


def _beyond(sizes: Sequence[int], along: Along) -> bool:
    return any(p.start < 0 or p.end > size for p, size in zip(along, sizes, strict=True))


def in_order(x: np.ndarray) -> np.ndarray:
    """An array whose last axis is the last in memory."""
    out = np.empty(x.shape, x.dtype)
    copy(x, out)
    return out


def windows_in(
    outer: Sequence[int], sizes: Sequence[int], last: Sequence[int], along: Along, dtype: Any
) -> Callable[[np.ndarray], np.ndarray]:
    """A function that gives a view with two axes for each one read: first those of the results, then of the taps.

    They lie between the axes ``outer`` and ``last``.  If there are last axes, they are the last in memory, too.
    """
    read, first, end = reading(outer, sizes, along, dtype, last), len(outer), len(outer) + len(along)
    if all(p.taps == 1 for p in along) and not last:
        every = (..., *[slice(None, None, p.stride) for p in along], *[None] * len(along))
        return lambda x: read(x)[every]
    shape = (*outer, *[p.count for p in along], *[p.taps for p in along], *last)

    def strides_of(steps: Sequence[int]) -> tuple[int, ...]:
        inner = steps[first:end]
        results = [step * p.stride for step, p in zip(inner, along, strict=True)]
        taps = [step * p.dilation for step, p in zip(inner, along, strict=True)]
        return (*steps[:first], *results, *taps, *steps[end:])

    if not _beyond(sizes, along):
        arranged = in_order if last else np.asarray
        return lambda x: as_strided(y := arranged(read(x)), shape, strides_of(y.strides), writeable=False)
    strides = strides_of(np.empty((*outer, *[p.end - p.start for p in along], *last), dtype).strides)
    return lambda x: np.ndarray(shape, dtype, read(x), 0, strides)  # a fifth of the time of ``as_strided``
