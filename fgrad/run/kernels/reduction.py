"""Kernels of sums, extremes, running sums and products of matrices."""

import math
from collections.abc import Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    BOOL,
    FLOATS,
    ORDERED,
    REALS,
    TABLE,
    Compute,
    Entry,
    Kernel,
    flushing,
    same,
)


def _sum(op: Op) -> Kernel | None:
    dtype, axes = op.in_types[0].dtype, tuple(op.params["axes"])
    if dtype not in REALS:
        return None
    along = None if len(axes) == op.in_types[0].ndim else axes
    return _of_any_order(partial(np.add.reduce, axis=along, dtype=dtype), dtype)


def _of_any_order(compute: Compute, dtype: np.dtype) -> Kernel:
    """A reduction whose floating-point result depends on the order of the elements."""
    if dtype not in FLOATS:
        return same(compute, ARITHMETIC)
    return Kernel(compute, flushing(compute), exact=False)


def _reduction(function: np.ufunc, dtypes: frozenset[np.dtype]) -> Entry:
    def entry(op: Op) -> Kernel | None:
        type, axes = op.in_types[0], tuple(op.params["axes"])
        if type.dtype not in dtypes or type.size == 0:
            return None
        return _of_any_order(partial(function.reduce, axis=axes), type.dtype)

    return entry


def _place(function: Compute) -> Entry:
    """The first place of an extreme element, or of the first NaN."""

    def entry(op: Op) -> Kernel | None:
        (axis,), dtype = op.params["axes"], op.out_types[0].dtype
        if op.in_types[0].dtype not in ORDERED or op.in_types[0].size == 0:
            return None
        compute: Compute = lambda x: function(x, axis).astype(dtype)  # noqa: E731
        return Kernel(compute, flushing(compute))

    return entry


def _cumulative(function: np.ufunc) -> Entry:
    def entry(op: Op) -> Kernel | None:
        dtype, axis = op.in_types[0].dtype, op.params["axis"]
        if dtype not in REALS:
            return None
        if not op.params["reverse"]:
            return _of_any_order(lambda x: function.accumulate(x, axis, dtype), dtype)
        return _of_any_order(lambda x: np.flip(function.accumulate(np.flip(x, axis), axis, dtype), axis), dtype)

    return entry


def _dot(op: Op) -> Kernel | None:
    """A product of matrices, of many where there are batches: other axes are brought into order around it."""
    left, right, out = (*op.in_types, *op.out_types)
    if not left.dtype == right.dtype == out.dtype or out.dtype not in FLOATS:
        return None
    (inner_l, inner_r), (batch_l, batch_r) = op.params["dimension_numbers"]
    outer_l = [i for i in range(left.ndim) if i not in (*inner_l, *batch_l)]
    outer_r = [i for i in range(right.ndim) if i not in (*inner_r, *batch_r)]
    batch, inner = _sizes(left, batch_l), math.prod(_sizes(left, inner_l))
    before = _arranged(left, (*batch_l, *outer_l, *inner_l), (*batch, math.prod(_sizes(left, outer_l)), inner))
    behind = _arranged(right, (*batch_r, *inner_r, *outer_r), (*batch, inner, math.prod(_sizes(right, outer_r))))
    shape = out.shape
    plain = len(outer_l) == len(outer_r) == 1
    compute: Compute = lambda x, y: np.matmul(before(x), behind(y)).reshape(shape)  # noqa: E731
    if plain:
        as_they_are = before is behind is _as_it_is
        compute = np.matmul if as_they_are else lambda x, y: np.matmul(before(x), behind(y))
    transposed = (lambda x, y: np.matmul(behind(y).T, before(x).T)) if plain and not batch else None
    return Kernel(compute, flushing(compute), exact=False, transposed=transposed)


def _as_it_is(x: Any) -> Any:
    return x


def _arranged(type: ShapedArray, order: tuple[int, ...], shape: tuple[int, ...]) -> Compute:
    """What brings an array's axes in this order, and then to this shape."""
    if order == tuple(range(type.ndim)):
        return _as_it_is if shape == type.shape else methodcaller("reshape", shape)
    if _sizes(type, order) == shape:
        return methodcaller("transpose", order)
    return lambda x: x.transpose(order).reshape(shape)


def _sizes(type: ShapedArray, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([type.shape[i] for i in axes])


REDUCTION: dict[str, Entry] = {
    "argmax": _place(np.argmax),
    "argmin": _place(np.argmin),
    "cummax": _cumulative(np.maximum),
    "cummin": _cumulative(np.minimum),
    "cumprod": _cumulative(np.multiply),
    "cumsum": _cumulative(np.add),
    "dot_general": _dot,
    "reduce_and": _reduction(np.logical_and, frozenset({BOOL})),
    "reduce_max": _reduction(np.maximum, ORDERED),
    "reduce_min": _reduction(np.minimum, ORDERED),
    "reduce_or": _reduction(np.logical_or, frozenset({BOOL})),
    "reduce_sum": _sum,
}
TABLE.update(REDUCTION)
