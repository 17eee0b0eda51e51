"""The kernel of products of matrices."""

import math
from collections.abc import Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray
from fgrad.run.kernels.kernel import FLOATS, TABLE, Compute, Entry, Kernel, flushing
from fgrad.run.kernels.one_thread import on_one_thread

#: OpenBLAS shares out products of more multiplications than these
SHARED, SHARED_WITH_VECTOR = 1 << 18, 9216


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
    if _is_shared(math.prod(_sizes(left, outer_l)), inner, math.prod(_sizes(right, outer_r))):
        compute, transposed = on_one_thread(compute), transposed and on_one_thread(transposed)
    return Kernel(compute, flushing(compute), exact=False, transposed=transposed)


def _is_shared(rows: int, inner: int, columns: int) -> bool:
    """Whether OpenBLAS would share a product of matrices of these sizes out among threads."""
    return rows * inner * columns > (SHARED if min(rows, columns) > 1 else SHARED_WITH_VECTOR)


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


PRODUCTS: dict[str, Entry] = {"dot_general": _dot}
TABLE.update(PRODUCTS)
