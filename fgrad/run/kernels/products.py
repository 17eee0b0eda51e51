"""The kernel of products of matrices.

NOTE [Products in parts]
BLAS has one thread while it computes for us (NOTE [One thread for BLAS]), and other processors would look on.  So a
large product is computed in parts, of its rows or of its columns: one by this thread, and the others by helpers that
sleep in between.  How it is cut depends on its shape and on how many threads BLAS began with, and on nothing that
happens meanwhile, so that equal factors give equal bits.  An interrupt leaves helpers with arrays that nobody reads.
"""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np

from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray
from fgrad.run.kernels.kernel import FLOATS, TABLE, Compute, Entry, Kernel, flushing
from fgrad.run.kernels.one_thread import on_one_thread, threads_of

#: OpenBLAS shares out products of more multiplications than these
SHARED, SHARED_WITH_VECTOR = 1 << 18, 9216
#: the multiplications of a part; waking a helper takes as long as a tenth of them
PART = 1 << 22

_blas = threads_of(np.linalg._umath_linalg)  # type: ignore[attr-defined]
#: how many threads BLAS began with; 1 where it is not ours to set
THREADS: int = 1 if _blas is None else _blas[0]()

Product = Callable[[Any, Any], Any]


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
    rows, columns = math.prod(_sizes(left, outer_l)), math.prod(_sizes(right, outer_r))
    product = product_of(batch, rows, inner, columns)
    compute: Compute = lambda x, y: product(before(x), behind(y)).reshape(shape)  # noqa: E731
    if plain:
        as_they_are = before is behind is _as_it_is
        compute = product if as_they_are else lambda x, y: product(before(x), behind(y))
    turned = product_of((), columns, inner, rows)
    transposed = (lambda x, y: turned(behind(y).T, before(x).T)) if plain and not batch else None
    if _is_shared(rows, inner, columns):
        compute, transposed = on_one_thread(compute), transposed and on_one_thread(transposed)
    return Kernel(compute, flushing(compute), exact=False, transposed=transposed)


def product_of(batch: tuple[int, ...], rows: int, inner: int, columns: int, threads: int = THREADS) -> Product:
    """What multiplies matrices of these sizes: see NOTE [Products in parts]."""
    count = min(threads, math.prod(batch) * rows * inner * columns // PART)
    if batch:
        count = min(count, batch[0])
    if count < 2:
        return np.matmul
    length = batch[0] if batch else max(rows, columns)
    bounds = [length * k // count for k in range(count + 1)]
    slices = [slice(*ends) for ends in pairwise(bounds)]

    def in_parts(x: Any, y: Any) -> Any:
        out = np.empty((*batch, rows, columns), x.dtype)
        if batch:
            parts = [(x[s], y[s], out[s]) for s in slices]
        elif rows >= columns:
            parts = [(x[s], y, out[s]) for s in slices]
        else:
            parts = [(x, y[:, s], out[:, s]) for s in slices]
        finished = [_begun(*part) for part in parts[1:]]
        np.matmul(*parts[0])
        for wait in finished:
            wait()
        return out

    return in_parts


def _begun(x: Any, y: Any, out: Any) -> Callable[[], Any]:
    """Have a helper multiply, silently where this thread is silent; what waits for it."""
    try:
        return _helpers.submit(copy_context().run, np.matmul, x, y, out).result
    except RuntimeError:  # the interpreter ends, or the system gives no more threads
        np.matmul(x, y, out)
        return lambda: None


_helpers: ThreadPoolExecutor


def _engage() -> None:
    global _helpers
    _helpers = ThreadPoolExecutor(max(THREADS - 1, 1), "fgrad multiplies")


_engage()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_engage)  # a forked process has no thread but one


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
