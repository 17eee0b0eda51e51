"""A row of the table: what NumPy computes, what it costs, and how closely it agrees with XLA.

NOTE [Two readings of a kernel]
``compute`` keeps subnormal numbers, as PyTorch does; the mutable layer runs on it.  XLA's arithmetic flushes them to
zero, operands and results, and tells the two zeros apart in ``max`` and ``min``; ``as_xla`` does the same, and the
functional layer runs on it.  If a kernel is ``exact``, this gives XLA's bits: it moves elements, or does arithmetic
that IEEE 754 fixes to the last bit.  Otherwise (sums, matrix products, functions such as ``exp``) the two agree up to
rounding.  The policy says which kernels run a graph, see NOTE [Back ends in order].

NOTE [What NumPy costs more]
A compiled program makes one pass over an array for all its operations, with several threads; NumPy makes one pass per
operation with one thread, but has no overhead to start.  So each row says how much longer NumPy takes per element, as
measured on two cores; matrix products, on which both take the same time, cost nothing extra.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.deferred import Table
from fgrad.graph.op import Op

Compute = Callable[..., Any]

FLOATS = frozenset(np.dtype(name) for name in ("float32", "float64"))
INTEGERS = frozenset(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = np.dtype(bool)
REALS = FLOATS | INTEGERS
ORDERED = REALS | {BOOL}
#: the dtypes that have kernels at all: complex numbers are only moved
SUPPORTED: frozenset[np.dtype[Any]] = ORDERED | {np.dtype("complex64"), np.dtype("complex128")}

#: extra nanoseconds per element, see NOTE [What NumPy costs more]: views, arithmetic, movements, functions
FREE, ARITHMETIC, MOVED, FUNCTION, SLOW_FUNCTION = 0.0, 0.08, 0.7, 1.5, 8.0

_TINY = {dtype: np.finfo(dtype).tiny for dtype in FLOATS}


@frozen
class Kernel:
    """An operation as a computation on NumPy arrays; several results are a list."""

    compute: Compute
    #: the same with XLA's zeros and subnormal numbers, see NOTE [Two readings of a kernel]
    as_xla: Compute
    #: extra nanoseconds per element, compared with a compiled program
    excess: float = ARITHMETIC
    #: whether it is elementwise, so that NumPy's broadcasting applies
    elementwise: bool = False
    #: whether ``as_xla`` gives the bits of JAX's primitive
    exact: bool = True
    #: the shape of the computed array, if it must still be broadcast to the result's shape
    shape: tuple[int, ...] | None = None
    #: for a product of two matrices, the computation of its transpose: the transposed factors in the other order
    transposed: Compute | None = None


#: the kernel of an operation; None if it has none
Entry = Callable[[Op], Kernel | None]
#: chooses the kernel of an operation; None if it should be left to JAX
KernelOf = Entry

#: by the name of a primitive; filled by the files of kernels
TABLE: Table[Entry] = Table()


def kernel(op: Op) -> Kernel | None:
    """The kernel that keeps subnormal numbers, as PyTorch does."""
    if "kernel" not in op.derived:
        entry = TABLE.get(op.name)
        supported = not op.effects and all(t.dtype in SUPPORTED for t in (*op.in_types, *op.out_types))
        op.derived["kernel"] = entry(op) if entry is not None and supported else None
    return op.derived["kernel"]


def kernel_as_xla(op: Op) -> Kernel | None:
    """The kernel with XLA's zeros and subnormal numbers: see NOTE [Two readings of a kernel]."""
    if "kernel as XLA" not in op.derived:
        row = kernel(op)
        op.derived["kernel as XLA"] = row and evolve(row, compute=row.as_xla, transposed=None)
    return op.derived["kernel as XLA"]


def exact_kernel(op: Op) -> Kernel | None:
    """The kernel that gives the bits of JAX's primitive."""
    row = kernel_as_xla(op)
    return row if row is not None and row.exact else None


def same(compute: Compute, excess: float, elementwise: bool = False) -> Kernel:
    """A kernel that does not round and keeps subnormal numbers, as XLA does."""
    return Kernel(compute, compute, excess, elementwise)


def flushed(x: Any) -> Any:
    """An array with zeros for subnormal numbers."""
    tiny = _TINY.get(x.dtype)
    if tiny is None:
        return x
    small = np.abs(x) < tiny
    # many arrays have zeros, few subnormal numbers, and replacing takes ten times as long as looking for them
    if not np.count_nonzero(small) or not np.count_nonzero(small & (x != 0)):
        return x
    return np.where(small, np.copysign(x.dtype.type(0), x), x)


def flushing(compute: Compute) -> Compute:
    """A computation that flushes operands and results."""
    return lambda *xs: flushed(compute(*map(flushed, xs)))
