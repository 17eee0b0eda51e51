"""Grouped and one-channel convolutions, in a form that XLA compiles well for a CPU.

NOTE [Groups on a CPU]
XLA's CPU code loops over the groups of a convolution; a depthwise convolution takes up to a hundred times too long.  So
when a program is compiled for a CPU, such a convolution is expanded: into a sum over the taps of the kernel, each the
elements that the tap reads times the kernel there.  The derivative with respect to the kernel is a convolution with
batch groups, whose kernel is as large as the image, with few results; there each result is a sum over the elements that
it reads.  Groups of several features use the elements read as columns of matrix products.  Only the sum over the taps
of a depthwise kernel needs no extra memory; the others hold what all taps read, and where that is much, XLA's own form
is better.

A small kernel on one channel becomes a matrix product for each image of the batch.  By itself a sum over its taps would
be faster, but not in a program: XLA recomputes that sum for each operation that reads it, such as the mean, variance
and result of a batch norm.

In a graph it stays one operation, so accelerators run their own code, derivatives stay convolutions, and NumPy has one
kernel for it.  The graph does not know for which platform it is compiled, so the lowering chooses.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from fgrad.graph.op import Op

#: the most taps, or else results per feature, of an expanded convolution
TERMS = 64
#: the most elements held at once
MEMORY = 1 << 22
#: the most sums per group that are computed elementwise; more are matrix products
ELEMENTWISE = 4
#: the most elements of an expanded kernel on one channel: 3x3 with 16 outputs on 32x1x28x28 takes 0.8 ms and 2.6 ms in
#: XLA's form, 5x5 with 6 outputs on 64x1x28x28 0.7 and 3.8 ms; with more outputs XLA's form is faster
ONE_CHANNEL = 600
TYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def lowered(op: Op) -> Callable[..., Any] | None:
    """The operation in a form that XLA compiles well for any platform; None to leave it unchanged."""
    params, (x_type, w_type), out_type = op.params, op.in_types, op.out_types[0]
    groups = params["feature_group_count"] * params["batch_group_count"]
    if not all(isinstance(n, int) for t in (x_type, w_type, out_type) for n in t.shape):
        return None  # the loops need known sizes
    x_spec, w_spec, out_spec = params["dimension_numbers"]
    taps = [w_type.shape[axis] for axis in w_spec[2:]]
    counts = [out_type.shape[axis] for axis in out_spec[2:]]
    by_taps = math.prod(taps) <= math.prod(counts)
    depthwise = w_type.shape[w_spec[1]] == 1
    if groups == 1 and not (by_taps and depthwise and w_type.size <= ONE_CHANNEL):
        return None
    if (
        not x_type.dtype == w_type.dtype == out_type.dtype
        or out_type.dtype not in TYPES
        or min(math.prod(taps), math.prod(counts)) > TERMS
        or (
            not (by_taps and depthwise and groups > 1)
            and min(math.prod(taps), math.prod(counts)) * x_type.size > MEMORY
        )
        or 0 in (x_type.size, w_type.size, out_type.size)
        or not x_type.sharding.mesh.empty
    ):
        return None
    batches, features = params["batch_group_count"], params["feature_group_count"]
    outputs = w_type.shape[w_spec[0]] // groups
    # ``steps`` between the positions looped over, ``strides`` between the elements that each of them reads
    steps, strides = params["rhs_dilation"], params["window_strides"]
    positions, lengths = (taps, counts) if by_taps else (counts, taps)
    if not by_taps:
        steps, strides = strides, steps
    padding = [(*ends, d - 1) for ends, d in zip(params["padding"], params["lhs_dilation"], strict=True)]
    offsets = list(itertools.product(*map(range, positions)))

    def expanded(x: Any, w: Any) -> Any:
        x, w = lax.transpose(x, x_spec), lax.transpose(w, w_spec)
        x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *padding])
        n, c = x.shape[0] // batches, x.shape[1] // features
        if batches > 1:
            x = lax.transpose(lax.reshape(x, (batches, n, *x.shape[1:])), (1, 0, *range(2, x.ndim + 1)))
        else:
            x = lax.reshape(x, (n, features, c, *x.shape[2:]))
        w = lax.reshape(w, (groups, outputs, *w.shape[1:]))
        read = [_read(x, offset, steps, strides, lengths) for offset in offsets]
        result = (_over_taps if by_taps else _over_results)(read, w)
        result = lax.reshape(result, (n, groups * outputs, *counts))
        return lax.transpose(result, np.argsort(out_spec))

    def unchanged(x: Any, w: Any) -> Any:
        return op.primitive.bind(x, w, **params)

    return lambda x, w: lax.platform_dependent(x, w, cpu=expanded, default=unchanged)


def _read(x: Any, offset: Sequence[int], steps: Sequence[int], strides: Sequence[int], lengths: Sequence[int]) -> Any:
    """The elements of ``x[n, g, c, ...]`` that the position ``offset`` reads."""
    starts = [i * step for i, step in zip(offset, steps, strict=True)]
    ends = [start + (n - 1) * s + 1 for start, n, s in zip(starts, lengths, strides, strict=True)]
    return lax.slice(x, (0, 0, 0, *starts), (*x.shape[:3], *ends), (1, 1, 1, *strides))


def _over_taps(read: Sequence[Any], w: Any) -> Any:
    """From what each tap reads, ``[n, g, c, ...]``, and ``w[g, o, c, ...]`` to ``[n, g, o, ...]``."""
    n, groups, c, *counts = read[0].shape
    outputs = w.shape[1]
    if c == 1 and groups > 1:
        shape, axes = (n, groups, outputs, *counts), range(len(counts) + 3)
        w = lax.reshape(w, (groups, outputs, len(read)))
        factors = [lax.broadcast_in_dim(lax.index_in_dim(w, k, 2, False), shape, (1, 2)) for k in range(len(read))]
        terms = [lax.mul(lax.broadcast_in_dim(x, shape, axes), f) for x, f in zip(read, factors, strict=True)]
        return functools.reduce(lax.add, terms)
    columns = _stacked(read, 3)
    columns = lax.reshape(columns, (n, groups, c * len(read), math.prod(counts)))
    matrix = lax.reshape(w, (groups, outputs, c * len(read)))
    if groups == 1:
        rows = lax.broadcast_in_dim(lax.squeeze(matrix, (0,)), (n, outputs, c * len(read)), (1, 2))
        return lax.expand_dims(lax.dot_general(rows, lax.squeeze(columns, (1,)), (((2,), (1,)), ((0,), (0,)))), (1,))
    result = lax.dot_general(matrix, columns, (((2,), (2,)), ((0,), (1,))))  # [g, o, n, ...]
    return lax.transpose(result, (2, 0, 1, 3))


def _over_results(read: Sequence[Any], w: Any) -> Any:
    """From what each result reads, ``[n, g, c, ...]``, and ``w[g, o, c, ...]`` to ``[n, g, o, results]``."""
    n, groups, c, *taps = read[0].shape
    outputs = w.shape[1]
    if n * outputs <= ELEMENTWISE:
        shape = (n, groups, outputs, c, *taps)
        factor = lax.broadcast_in_dim(w, shape, tuple(range(1, len(shape))))
        summed = tuple(range(3, len(shape)))
        axes = (0, 1, *range(3, len(shape)))
        sums = [lax.reduce_sum(lax.mul(lax.broadcast_in_dim(x, shape, axes), factor), summed) for x in read]
        return _stacked(sums, 3)
    rows = lax.reshape(_stacked(read, 1), (n, len(read), groups, c * math.prod(taps)))
    matrix = lax.reshape(w, (groups, outputs, c * math.prod(taps)))
    result = lax.dot_general(matrix, rows, (((2,), (3,)), ((0,), (2,))))  # [g, o, n, results]
    return lax.transpose(result, (2, 0, 1, 3))


def _stacked(parts: Sequence[Any], axis: int) -> Any:
    return lax.concatenate([lax.expand_dims(part, (axis,)) for part in parts], axis)
