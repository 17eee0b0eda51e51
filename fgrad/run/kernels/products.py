"""The kernel of matrix products.

NOTE [Products in parts]
BLAS has one thread while it computes for us (NOTE [One thread for BLAS]), which would leave other processors idle.  So
a large product is split along its rows or columns, and helpers compute the parts where that takes less time: NOTE
[Alone or with helpers].  The split depends only on the shape and on the number of threads that BLAS started with, so
equal factors give equal bits.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import jax
import numpy as np

from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray
from fgrad.run.kernels.helpers import PART, Parts, slices_of
from fgrad.run.kernels.kernel import COMPLEX, FLOATS, TABLE, Compute, Entry, Kernel, flushing
from fgrad.run.kernels.one_thread import THREADS, on_one_thread

#: OpenBLAS uses several threads for products of more multiplications than these
THREADED, THREADED_WITH_VECTOR = 1 << 18, 9216
Product = Callable[[Any, Any], Any]


def _dot(op: Op) -> Kernel | None:
    """A product of matrices, or of batches of them, between transposes and reshapes of the axes."""
    left, right, out = (*op.in_types, *op.out_types)
    if not left.dtype == right.dtype == out.dtype or out.dtype not in FLOATS | COMPLEX:
        return None
    if isinstance(op.params["precision"], jax.lax.DotAlgorithm | jax.lax.DotAlgorithmPreset):
        return None  # most are refused on a CPU
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
    slices = slices_of(batch[0] if batch else max(rows, columns), count)
    run = Parts()

    def in_parts(x: Any, y: Any) -> Any:
        out = np.empty((*batch, rows, columns), x.dtype)
        if batch:
            parts = [(x[s], y[s], out[s]) for s in slices]
        elif rows >= columns:
            parts = [(x[s], y, out[s]) for s in slices]
        else:
            parts = [(x, y[:, s], out[:, s]) for s in slices]
        run([partial(np.matmul, *part) for part in parts])
        return out

    return in_parts


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
