"""Convolutions that XLA compiles badly for a CPU, in a form that it compiles well.

NOTE [Convolutions on a CPU]
XLA's CPU code is made for large images, small kernels and few groups.  What is far from that is expanded when a program
is compiled for a CPU, into matrix products or sums over the elements that are read:

- *Groups.*  XLA loops over them; a depthwise convolution takes up to a hundred times too long.  It becomes a sum over
  the taps of the kernel, each the elements that the tap reads times the kernel there.  The derivative with respect to
  the kernel is a convolution with batch groups, whose kernel is as large as the image, with few results; there each
  result is a sum over the elements that it reads.  Groups of several features use the elements read as columns of
  matrix products.  Only the sum over the taps of a depthwise kernel needs no extra memory; the others hold what all
  taps read, and where that is much, XLA's own form is better.
- *One channel.*  A small kernel becomes a matrix product for each image of the batch.  By itself a sum over its taps
  would be faster, but not in a program: XLA recomputes that sum for each operation that reads it, such as the mean,
  variance and result of a batch norm.
- *Kernels larger than all that they read*, as in the last stages of a network.  The elements read become the columns
  of one matrix product, which reads the kernel once, where it lies.  XLA turns the kernel around first, or takes the
  image for the kernel: up to fifty times as long.
- *Few results, each of many elements*: the derivative of any convolution with respect to its kernel.  Each result
  is a matrix product, in a loop that holds what one of them reads; XLA takes up to twice as long as that.

In a graph it stays one operation, so accelerators run their own code, derivatives stay convolutions, and NumPy has one
kernel for it.  The graph does not know for which platform it is compiled, so the lowering chooses.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import lax

from fgrad.graph.op import Op

#: the most taps, or else results per feature, of an expanded convolution
TERMS = 64
#: the most elements held at once by groups
MEMORY = 1 << 22
#: the most sums per group that are computed elementwise; more are matrix products
ELEMENTWISE = 4
#: the most elements of an expanded kernel on one channel: 3x3 with 16 outputs on 32x1x28x28 takes 0.8 ms and 2.6 ms in
#: XLA's form, 5x5 with 6 outputs on 64x1x28x28 0.7 and 3.8 ms; with more outputs XLA's form is faster
ONE_CHANNEL = 600
#: the fewest rows and columns of the products in a loop: 64x64 for a kernel on 8x64x32x32 take 18 ms and 33 ms in XLA's
#: form, 16x32 on 32x16x14x14 2.3 and 3.5 ms, but 3x16 on 8x3x32x32 3.0 and 0.8 ms
FEATURES = 16
TYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


@frozen
class _Geometry:
    """The sizes of a convolution, and what it reads at each place of a loop over the taps, or else over the results.

    Attributes:
      specs: which axes of the operands and of the result are which, as in the operation.
      counts: the sizes of the result's spatial axes.
      by_taps: whether the loop is over the kernel's taps.
      positions, lengths: the sizes of what is looped over, and of what is read at each place.
      steps, strides: between the positions, and between the elements that each of them reads.
    """

    specs: tuple[Sequence[int], Sequence[int], Sequence[int]]
    counts: Sequence[int]
    by_taps: bool
    positions: Sequence[int]
    lengths: Sequence[int]
    steps: Sequence[int]
    strides: Sequence[int]
    padding: Sequence[tuple[int, int, int]]
    batches: int
    features: int
    outputs: int

    @property
    def groups(self) -> int:
        return self.batches * self.features

    def starts(self) -> list[list[int]]:
        return [
            [i * step for i, step in zip(position, self.steps, strict=True)]
            for position in itertools.product(*map(range, self.positions))
        ]

    def spans(self) -> list[int]:
        return [(n - 1) * stride + 1 for n, stride in zip(self.lengths, self.strides, strict=True)]

    def reads(self, x: Any) -> list[Any]:
        """For each position, the elements of ``x[n, g, c, ...]`` that are read there."""
        spans, strides = self.spans(), (1, 1, 1, *self.strides)

        def read(start: Sequence[int]) -> Any:
            end = [i + n for i, n in zip(start, spans, strict=True)]
            return lax.slice(x, (0, 0, 0, *start), (*x.shape[:3], *end), strides)

        return [read(start) for start in self.starts()]

    def result(self, result: Any) -> Any:
        """From ``[n, o, results]`` or ``[n, o, ...]`` to the axes of the operation's result."""
        result = lax.reshape(result, (*result.shape[:2], *self.counts))
        return lax.transpose(result, np.argsort(self.specs[2]))


Expand = Callable[[_Geometry, Any, Any], Any]


def lowered(op: Op) -> Callable[..., Any] | None:
    """The operation in a form that XLA compiles well for any platform; None to leave it unchanged."""
    params, (x_type, w_type), out_type = op.params, op.in_types, op.out_types[0]
    if not all(isinstance(n, int) for t in (x_type, w_type, out_type) for n in t.shape):
        return None  # the loops need known sizes
    if (
        not x_type.dtype == w_type.dtype == out_type.dtype
        or out_type.dtype not in TYPES
        or 0 in (x_type.size, w_type.size, out_type.size)
        or not x_type.sharding.mesh.empty
    ):
        return None
    x_spec, w_spec, out_spec = params["dimension_numbers"]
    taps = tuple([w_type.shape[axis] for axis in w_spec[2:]])
    counts = tuple([out_type.shape[axis] for axis in out_spec[2:]])
    by_taps = math.prod(taps) <= math.prod(counts)
    between_taps, between_results = params["rhs_dilation"], params["window_strides"]
    batches, features = params["batch_group_count"], params["feature_group_count"]
    geometry = _Geometry(
        specs=(x_spec, w_spec, out_spec),
        counts=counts,
        by_taps=by_taps,
        positions=taps if by_taps else counts,
        lengths=counts if by_taps else taps,
        steps=between_taps if by_taps else between_results,
        strides=between_results if by_taps else between_taps,
        padding=[(*ends, d - 1) for ends, d in zip(params["padding"], params["lhs_dilation"], strict=True)],
        batches=batches,
        features=features,
        outputs=w_type.shape[w_spec[0]] // (batches * features),
    )
    if math.prod(geometry.positions) > TERMS:
        return None
    expand = _expansion(geometry, [x_type.shape[axis] for axis in x_spec], [w_type.shape[axis] for axis in w_spec])
    if expand is None:
        return None

    def expanded(x: Any, w: Any) -> Any:
        return expand(geometry, lax.transpose(x, x_spec), lax.transpose(w, w_spec))

    def unchanged(x: Any, w: Any) -> Any:
        return op.primitive.bind(x, w, **params)

    return lambda x, w: lax.platform_dependent(x, w, cpu=expanded, default=unchanged)


def _expansion(geometry: _Geometry, x_shape: Sequence[int], w_shape: Sequence[int]) -> Expand | None:
    """How a convolution of ``x[n, c, ...]`` with ``w[o, c, ...]`` is expanded; None where XLA's form is better."""
    n, c = x_shape[:2]
    x_size, w_size = math.prod(x_shape), math.prod(w_shape)
    places = math.prod(geometry.positions)
    one_channel = w_shape[1] == 1
    if geometry.groups > 1:
        needs_memory = not (geometry.by_taps and one_channel)
        return None if needs_memory and places * x_size > MEMORY else _in_groups
    if geometry.by_taps and one_channel and w_size <= ONE_CHANNEL:
        return _in_groups if places * x_size <= MEMORY else None
    if n * c * places * math.prod(geometry.lengths) <= w_size:
        return _in_columns
    return _in_loop if not geometry.by_taps and min(n, geometry.outputs) >= FEATURES else None


# -- groups -----------------------------------------------------------------------------------------------------------


def _in_groups(geometry: _Geometry, x: Any, w: Any) -> Any:
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *geometry.padding])
    n, c = x.shape[0] // geometry.batches, x.shape[1] // geometry.features
    if geometry.batches > 1:
        x = lax.transpose(lax.reshape(x, (geometry.batches, n, *x.shape[1:])), (1, 0, *range(2, x.ndim + 1)))
    else:
        x = lax.reshape(x, (n, geometry.features, c, *x.shape[2:]))
    w = lax.reshape(w, (geometry.groups, geometry.outputs, *w.shape[1:]))
    result = (_over_taps if geometry.by_taps else _over_results)(geometry.reads(x), w)
    return geometry.result(lax.reshape(result, (n, geometry.groups * geometry.outputs, *geometry.counts)))


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


# -- one group --------------------------------------------------------------------------------------------------------


def _in_columns(geometry: _Geometry, x: Any, w: Any) -> Any:
    """One product of matrices, of the kernel and all that is read."""
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *geometry.padding])
    read = geometry.reads(lax.expand_dims(x, (1,)))
    matrix = _matrix(w)
    shape, axis = (math.prod(geometry.counts), matrix.shape[1]), 2
    if geometry.by_taps:
        shape, axis = shape[::-1], 1
    columns = lax.reshape(_stacked(read, 3 if geometry.by_taps else 1), (x.shape[0], *shape))
    result = lax.dot_general(matrix, columns, (((1,), (axis,)), ((), ())))  # [o, n, results]
    return geometry.result(lax.transpose(result, (1, 0, 2)))


def _in_loop(geometry: _Geometry, x: Any, w: Any) -> Any:
    """A product of matrices for each result."""
    x = lax.transpose(x, (*range(1, x.ndim), 0))  # what a product reads of each n is one column
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *geometry.padding, (0, 0, 0)])
    matrix = _matrix(w)

    def product(start: Any) -> Any:
        read = lax.dynamic_slice(x, [*start], (x.shape[0], *geometry.spans(), x.shape[-1]))
        read = lax.slice(read, (0,) * x.ndim, read.shape, (1, *geometry.strides, 1))
        return lax.dot(matrix, lax.reshape(read, (matrix.shape[1], x.shape[-1])))

    starts = np.array([(0, *start, 0) for start in geometry.starts()], np.int32)
    products = lax.map(product, starts)  # [results, o, n]
    return geometry.result(lax.transpose(products, (2, 1, 0)))


def _matrix(w: Any) -> Any:
    """A kernel with a row for each output."""
    return lax.reshape(w, (w.shape[0], math.prod(w.shape[1:])))


def _stacked(parts: Sequence[Any], axis: int) -> Any:
    return lax.concatenate([lax.expand_dims(part, (axis,)) for part in parts], axis)
