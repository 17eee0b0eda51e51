"""Kernels of sums, products, extremes, and their running versions."""

import math
from functools import partial
from typing import Any

import numpy as np

from fgrad.graph.op import Op
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REALS,
    TABLE,
    Compute,
    Entry,
    Kernel,
    flushing,
    same,
)


def _total(function: np.ufunc) -> Entry:
    """A sum or product, in the operand's type."""

    def entry(op: Op) -> Kernel | None:
        dtype, axes = op.in_types[0].dtype, tuple(op.params["axes"])
        if dtype not in NUMBERS:
            return None
        along = None if len(axes) == op.in_types[0].ndim else axes
        return _order_dependent(partial(function.reduce, axis=along, dtype=dtype), dtype)

    return entry


#: sums of so many elements at least, of so many inner ones each at most, are einsums
_SUMMED, _INNER = 1 << 9, 1 << 12

_PLAIN_SUM = _total(np.add)


def _sum(op: Op) -> Kernel | None:
    """A sum; over inner axes, and outer ones as well, by ``einsum``, which takes a half to a third of the time.

    NumPy adds many elements in pairs, which is more accurate, so long sums are left to it.
    """
    type, axes = op.in_types[0], frozenset(op.params["axes"])
    plain = _PLAIN_SUM(op)
    kept = [axis for axis in range(type.ndim) if axis not in axes]
    first, end = (kept[0], kept[-1] + 1) if kept else (0, 0)
    inner = math.prod(type.shape[end:])
    if plain is None or type.dtype not in FLOATS or len(kept) < end - first:
        return plain
    if type.size < _SUMMED or not 1 < inner <= _INNER:
        return plain
    three, shape = (math.prod(type.shape[:first]), math.prod(type.shape[first:end]), inner), op.out_types[0].shape

    def compute(x: Any) -> Any:
        if x.flags.c_contiguous:
            return np.einsum("okn->k", x.reshape(three)).reshape(shape)
        return plain.compute(x)

    return _order_dependent(compute, type.dtype)


def _order_dependent(compute: Compute, dtype: np.dtype) -> Kernel:
    """A reduction whose floating-point result depends on the order in which elements are combined."""
    if dtype not in FLOATS | COMPLEX:
        return same(compute, ARITHMETIC)
    return Kernel(compute, flushing(compute), exact=False)


def _reduction(function: np.ufunc, dtypes: frozenset[np.dtype]) -> Entry:
    def entry(op: Op) -> Kernel | None:
        type, axes = op.in_types[0], tuple(op.params["axes"])
        if type.dtype not in dtypes or type.size == 0:
            return None
        return _order_dependent(partial(function.reduce, axis=axes), type.dtype)

    return entry


def _arg(function: Compute) -> Entry:
    """The first index of an extreme element, or of a NaN."""

    def entry(op: Op) -> Kernel | None:
        (axis,), dtype = op.params["axes"], op.out_types[0].dtype
        if op.in_types[0].dtype not in ORDERED or op.in_types[0].size == 0:
            return None
        compute: Compute = lambda x: function(x, axis).astype(dtype)  # noqa: E731
        return Kernel(compute, flushing(compute))

    return entry


def _cumulative(function: np.ufunc, dtypes: frozenset[np.dtype]) -> Entry:
    def entry(op: Op) -> Kernel | None:
        dtype, axis = op.in_types[0].dtype, op.params["axis"]
        if dtype not in dtypes:
            return None
        if not op.params["reverse"]:
            return _order_dependent(lambda x: function.accumulate(x, axis, dtype), dtype)
        return _order_dependent(lambda x: np.flip(function.accumulate(np.flip(x, axis), axis, dtype), axis), dtype)

    return entry


REDUCTION: dict[str, Entry] = {
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "cumlogsumexp": _cumulative(np.logaddexp, FLOATS),
    "cummax": _cumulative(np.maximum, REALS),
    "cummin": _cumulative(np.minimum, REALS),
    "cumprod": _cumulative(np.multiply, NUMBERS),
    "cumsum": _cumulative(np.add, NUMBERS),
    "reduce_and": _reduction(np.logical_and, frozenset({BOOL})),
    "reduce_max": _reduction(np.maximum, ORDERED),
    "reduce_min": _reduction(np.minimum, ORDERED),
    "reduce_or": _reduction(np.logical_or, frozenset({BOOL})),
    "reduce_prod": _total(np.multiply),
    "reduce_sum": _sum,
    "reduce_xor": _reduction(np.bitwise_xor, INTEGERS),
}
TABLE.update(REDUCTION)
