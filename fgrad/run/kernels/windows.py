"""Kernels of reductions over sliding windows: one dimension, and one offset in the window, after the other."""

import itertools
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray, closed_parts
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    FLOATS,
    FUNCTION,
    INTEGERS,
    MOVED,
    REALS,
    TABLE,
    Compute,
    Entry,
    Kernel,
    flushing,
)
from fgrad.run.kernels.movement import padding

#: the most elements of a window that are looped over
OFFSETS = 256

#: by primitive: NumPy's function, and its identity
_UFUNCS: dict[str, tuple[np.ufunc, float]] = {
    "add": (np.add, 0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
    "mul": (np.multiply, 1),
}


def _along(x: np.ndarray, axis: int, count: int, window: int, stride: int, dilation: int, ufunc: np.ufunc) -> Any:
    """Reduce each of ``count`` windows along one axis."""
    # an unused stride may be larger than any array
    stride, dilation = stride if count > 1 else 1, dilation if window > 1 else 1
    if window > count:
        steps, shape = x.strides, x.shape
        windows = as_strided(
            x,
            (*shape[:axis], count, *shape[axis + 1 :], window),
            (*steps[:axis], steps[axis] * stride, *steps[axis + 1 :], steps[axis] * dilation),
            writeable=False,
        )
        return ufunc.reduce(windows, -1, x.dtype)
    before = (slice(None),) * axis
    out = None
    for start in range(0, window * dilation, dilation):
        term = x[(*before, slice(start, start + (count - 1) * stride + 1, stride))]
        if out is None:
            out = term.copy() if window > 1 else term
        else:
            ufunc(out, term, out=out)
    return out


def _windows(op: Op, name: str) -> tuple[Compute, float] | None:
    """The reduction of an array's windows, padded with the identity, and its cost; None if it is not supported."""
    type, out, params = op.in_types[0], op.out_types[0], op.params
    if type.dtype not in REALS or 0 in (*type.shape, *out.shape, *params["window_dimensions"]):
        return None
    ufunc, identity = _UFUNCS[name]
    padding_value = _number(identity, type.dtype)
    config = [(low, high, d - 1) for (low, high), d in zip(params["padding"], params["base_dilation"], strict=True)]
    pad = padding(type.shape, config) if any(map(any, config)) else None
    axes = [
        (axis, *numbers)
        for axis, numbers in enumerate(
            zip(out.shape, *[params[f"window_{name}"] for name in ("dimensions", "strides", "dilation")], strict=True)
        )
        if numbers[1] > 1 or numbers[2] > 1
    ]

    def compute(x: Any) -> Any:
        x = x if pad is None else pad(x, padding_value)
        for axis, count, window, stride, dilation in axes:
            x = _along(x, axis, count, window, stride, dilation, ufunc)
        return x[inner]

    inner = tuple(map(slice, out.shape))
    passes = sum([window for _, _, window, _, _ in axes])
    return compute, MOVED + 2 * ARITHMETIC * passes


def _number(value: float, dtype: np.dtype) -> Any:
    """A number in a dtype; for an infinity and integers, their largest or smallest."""
    if np.isinf(value) and dtype in INTEGERS:
        ends = np.iinfo(dtype)
        value = ends.max if value > 0 else ends.min
    return np.asarray(value, dtype)


def _plain(name: str) -> Entry:
    def entry(op: Op) -> Kernel | None:
        reduction = _windows(op, name)
        return None if reduction is None else _of_windows(*reduction, op.in_types[0])

    return entry


def _of_windows(compute: Compute, cost: float, type: ShapedArray) -> Kernel:
    return Kernel(compute, flushing(compute) if type.dtype in FLOATS else compute, cost, exact=type.dtype not in FLOATS)


def _reduce_window(op: Op) -> Kernel | None:
    """A reduction with an initial value for each window."""
    if len(op.in_types) != 2:
        return None
    _, consts, invars, eqns, outvars = closed_parts(op.params["jaxpr"])
    if consts or len(eqns) != 1 or list(eqns[0].outvars) != list(outvars) or {*eqns[0].invars} != {*invars}:
        return None
    name = eqns[0].primitive.name
    reduction = _windows(op, name) if name in _UFUNCS else None
    if reduction is None:
        return None
    (ufunc, _), (reduce, cost) = _UFUNCS[name], reduction
    return _of_windows(lambda x, start: ufunc(reduce(x), start), cost, op.in_types[0])


#: by the comparison under which the earlier of two elements is selected: NumPy's, and the padding value
_COMPARE: dict[str, tuple[np.ufunc, float]] = {"ge": (np.greater_equal, -np.inf), "le": (np.less_equal, np.inf)}


def _select_and_scatter_add(op: Op) -> Kernel | None:
    """Add each element of the source at the position that its window selects."""
    source, operand = op.in_types
    params = op.params
    sizes, strides, pads = params["window_dimensions"], params["window_strides"], params["padding"]
    known = _COMPARE.get(params["select_prim"].name)
    offsets = list(itertools.product(*map(range, sizes)))
    if known is None or operand.dtype not in FLOATS or not 0 < len(offsets) <= OFFSETS:
        return None
    if 0 in (*source.shape, *operand.shape):
        return None
    compare, fill = known
    padding_value = operand.dtype.type(fill)
    pad = padding(operand.shape, [(low, high, 0) for low, high in pads])
    inner = tuple([slice(low, low + n) for n, (low, _) in zip(operand.shape, pads, strict=True)])
    slices = [
        tuple([slice(i, i + (n - 1) * s + 1, s) for i, n, s in zip(offset, source.shape, strides, strict=True)])
        for offset in offsets
    ]

    def compute(values: Any, x: Any) -> Any:
        padded = pad(x, padding_value)
        best = padded[slices[0]].copy()
        selected = np.zeros(source.shape, np.int16)
        for k, at_offset in enumerate(slices[1:], 1):
            term = padded[at_offset]
            better = ~compare(best, term)
            np.copyto(best, term, where=better)
            selected[better] = k
        out = np.zeros(padded.shape, values.dtype)
        for k, at_offset in enumerate(slices):
            out[at_offset] += np.where(selected == k, values, 0)
        return out[inner]

    ratio = len(offsets) * source.size / max(operand.size, source.size)
    return Kernel(compute, flushing(compute), FUNCTION * ratio + MOVED, exact=False)


WINDOWS: dict[str, Entry] = {
    "reduce_window": _reduce_window,
    "reduce_window_max": _plain("max"),
    "reduce_window_min": _plain("min"),
    "reduce_window_sum": _plain("add"),
    "select_and_scatter_add": _select_and_scatter_add,
}
TABLE.update(WINDOWS)
