"""Kernels that look at bits: shifts, counts, and the order of all floating-point numbers."""

from typing import Any

import numpy as np

from fgrad.graph.op import Op
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    BOOL,
    FLOATS,
    FUNCTION,
    INTEGERS,
    TABLE,
    Compute,
    Entry,
    Kernel,
    all_in,
    same,
)


def _in_total_order(compare: np.ufunc) -> Entry:
    """A comparison by which NaNs are the least or greatest numbers, by their signs, and -0 is less than 0."""

    def entry(op: Op) -> Kernel | None:
        if all_in(INTEGERS | {BOOL}, op):
            return same(compare, ARITHMETIC, elementwise=True)
        if not all_in(FLOATS, op):
            return None
        return same(lambda x, y: compare(_ordered_bits(x), _ordered_bits(y)), FUNCTION, elementwise=True)

    return entry


def _ordered_bits(x: Any) -> Any:
    """Integers in the order of floating-point numbers."""
    bits = np.asarray(x).view(f"int{8 * x.dtype.itemsize}")
    return np.where(bits < 0, np.iinfo(bits.dtype).max ^ bits, bits)


def _shift(function: Compute) -> Entry:
    """A shift of bits, whose result is that of all bits shifted out where the distance is not inside the type."""

    def entry(op: Op) -> Kernel | None:
        if not all_in(INTEGERS, op):
            return None
        bits = 8 * op.in_types[0].dtype.itemsize

        def compute(x: Any, distance: Any) -> Any:
            inside = (distance >= 0) & (distance < bits)
            return np.where(inside, function(x, np.where(inside, distance, 0)), function(function(x, bits - 1), 1))

        return same(compute, FUNCTION, elementwise=True)

    return entry


def _right_shift(sign: str) -> Compute:
    """A shift of the bits as those of signed or unsigned integers."""

    def shift(x: Any, distance: Any) -> Any:
        dtype = f"{sign}int{8 * x.dtype.itemsize}"
        return np.right_shift(x.astype(dtype), np.asarray(distance, dtype)).astype(x.dtype)

    return shift


def _population_count(op: Op) -> Kernel | None:
    dtype = op.out_types[0].dtype
    if not all_in(INTEGERS, op):
        return None
    unsigned = f"uint{8 * dtype.itemsize}"
    return same(lambda x: np.bitwise_count(x.view(unsigned)).astype(dtype), FUNCTION, elementwise=True)


BITS: dict[str, Entry] = {
    "le_to": _in_total_order(np.less_equal),
    "lt_to": _in_total_order(np.less),
    "population_count": _population_count,
    "shift_left": _shift(np.left_shift),
    "shift_right_arithmetic": _shift(_right_shift("")),
    "shift_right_logical": _shift(_right_shift("u")),
}
TABLE.update(BITS)
