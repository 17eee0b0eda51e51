"""The kernel of matrix products.

NOTE [Products in parts]
BLAS has one thread while it computes for us (NOTE [One thread for BLAS]), which would leave other processors idle.  So
a large product is split along its rows or columns: this thread computes one part, and helper threads, which sleep in
between, the others.  The split depends only on the shape and on the number of threads that BLAS started with, so equal
factors give equal bits.  After an interrupt the helpers finish on arrays that nobody reads.
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

#: OpenBLAS uses several threads for products of more multiplications than these
THREADED, THREADED_WITH_VECTOR = 1 << 18, 9216
#: the multiplications of a part: ten times as long as it takes to wake a helper
PART = 1 << 22

_blas = threads_of(np.linalg._umath_linalg)  # type: ignore[attr-defined]
#: how many threads BLAS started with; 1 if we cannot set it
THREADS: int = 1 if _blas is None else _blas[0]()

Product = Callable[[Any, Any], Any]


def _dot(op: Op) -> Kernel | None:
    """A product of matrices, or of batches of them, between transposes and reshapes of the axes."""
    left, right, out = (*op.in_types, *op.out_types)
    if not left.dtype == right.dtype == out.dtype or out.dtype not in FLOATS:
        return None
    (inner_l, inner_r), (batch_l, batch_r) = op.params["dimension_numbers"]
    outer_l = [i for i in range(left.ndim) if i not in (*inner_l, *batch_l)]
    outer_r = [i for i in range(right.ndim) if i not in (*inner_r, *batch_r)]
    batch, inner = _sizes(left, batch_l), math.prod(_sizes(left, inner_l))
    arrange_left = _arranged(left, (*batch_l, *outer_l, *inner_l), (*batch, math.prod(_sizes(left, outer_l)), inner))
    arrange_right = _arranged(right, (*batch_r, *inner_r, *outer_r), (*batch, inner, math.prod(_sizes(right, outer_r))))
    shape = out.shape
    plain = len(outer_l) == len(outer_r) == 1
    rows, columns = math.prod(_sizes(left, outer_l)), math.prod(_sizes(right, outer_r))
    product = product_of(batch, rows, inner, columns)
    compute: Compute = lambda x, y: product(arrange_left(x), arrange_right(y)).reshape(shape)  # noqa: E731
    if plain:
        arranged = arrange_left is arrange_right is _identity
        compute = product if arranged else lambda x, y: product(arrange_left(x), arrange_right(y))
    swapped = product_of((), columns, inner, rows)
    transposed = (lambda x, y: swapped(arrange_right(y).T, arrange_left(x).T)) if plain and not batch else None
    if _is_threaded(rows, inner, columns):
        compute, transposed = on_one_thread(compute), transposed and on_one_thread(transposed)
    return Kernel(compute, flushing(compute), exact=False, transposed=transposed)


def product_of(batch: tuple[int, ...], rows: int, inner: int, columns: int, threads: int = THREADS) -> Product:
    """A function that multiplies matrices of these sizes: see NOTE [Products in parts]."""
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
        waits = [_submit(*part) for part in parts[1:]]
        np.matmul(*parts[0])
        for wait in waits:
            wait()
        return out

    return in_parts


def _submit(x: Any, y: Any, out: Any) -> Callable[[], Any]:
    """Have a helper multiply, under this thread's NumPy error state; returns a function that waits for it."""
    try:
        return _helpers.submit(copy_context().run, np.matmul, x, y, out).result
    except RuntimeError:  # the interpreter is exiting, or the system is out of threads
        np.matmul(x, y, out)
        return lambda: None


_helpers: ThreadPoolExecutor


def _start_helpers() -> None:
    global _helpers
    _helpers = ThreadPoolExecutor(max(THREADS - 1, 1), "fgrad multiplies")


_start_helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_helpers)  # a forked process has only the forking thread


def _is_threaded(rows: int, inner: int, columns: int) -> bool:
    """Whether OpenBLAS would use several threads for a product of matrices of these sizes."""
    return rows * inner * columns > (THREADED if min(rows, columns) > 1 else THREADED_WITH_VECTOR)


def _identity(x: Any) -> Any:
    return x


def _arranged(type: ShapedArray, order: tuple[int, ...], shape: tuple[int, ...]) -> Compute:
    """A function that transposes an array to this order of axes, and then reshapes it."""
    if order == tuple(range(type.ndim)):
        return _identity if shape == type.shape else methodcaller("reshape", shape)
    if _sizes(type, order) == shape:
        return methodcaller("transpose", order)
    return lambda x: x.transpose(order).reshape(shape)


def _sizes(type: ShapedArray, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([type.shape[i] for i in axes])


PRODUCTS: dict[str, Entry] = {"dot_general": _dot}
TABLE.update(PRODUCTS)
