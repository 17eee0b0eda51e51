"""The kernel of matrix products.

NOTE [Batches in parts]
A large product of two matrices is left to the threads of BLAS (NOTE [Threads of BLAS]).  A batch of small ones would
be computed by one thread, so it is cut along its first axis, and helpers compute the parts where that takes less time:
NOTE [Alone or with helpers].
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
from fgrad.run.kernels.blas_threads import THREADS, gains, on_threads_for
from fgrad.run.kernels.helpers import PART, Parts, slices_of
from fgrad.run.kernels.kernel import COMPLEX, FLOATS, TABLE, Compute, Entry, Kernel, flushing

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
    threads = partial(on_threads_for, rows, inner, columns)
    compute, transposed = threads(compute), transposed and threads(transposed)
    return Kernel(compute, flushing(compute), exact=False, transposed=transposed)


def product_of(batch: tuple[int, ...], rows: int, inner: int, columns: int, threads: int = THREADS) -> Product:
    """A function that multiplies matrices of these sizes: see NOTE [Batches in parts]."""
    count = min(threads, batch[0] if batch else 1, math.prod(batch) * rows * inner * columns // PART)
    if count < 2 or gains(rows, inner, columns):
        return np.matmul
    slices = slices_of(batch[0], count)
    run = Parts()

    def in_parts(x: Any, y: Any) -> Any:
        out = np.empty((*batch, rows, columns), x.dtype)
        run([partial(np.matmul, x[s], y[s], out[s]) for s in slices])
        return out

    return in_parts


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
