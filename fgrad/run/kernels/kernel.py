"""What the table says of an operation: what NumPy computes, what it costs, and how nearly it agrees with XLA.

NOTE [Two readings of a kernel]
``compute`` keeps subnormal numbers, as PyTorch does; the mutable layer runs on it.  XLA's arithmetic flushes them to
zero, operands and results, and tells the two zeros apart in ``max`` and ``min``; ``as_xla`` does so too, and the
functional layer runs on it.  Where a kernel is ``exact``, this gives XLA's very bits: it moves elements, or does
arithmetic that IEEE 754 fixes to the last bit.  Elsewhere (sums, products of matrices, functions such as ``exp``) the
two agree up to rounding.  Which kernels run a graph is the policy's to say, see NOTE [Back ends in order].

NOTE [What NumPy costs more]
A compiled program goes through an array once for all its operations, with several threads; NumPy goes through it for
each operation with one, but begins at once.  Each row therefore says by how much NumPy takes longer for an element,
from what was measured on two cores; matrix products, on which both spend the same time, cost nothing.
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
#: the types of which there are kernels at all: complex numbers are only moved
SUPPORTED: frozenset[np.dtype[Any]] = ORDERED | {np.dtype("complex64"), np.dtype("complex128")}

#: nanoseconds an element, see NOTE [What NumPy costs more]: of views, arithmetic, elements put elsewhere, functions
FREE, ARITHMETIC, MOVED, FUNCTION, SLOW_FUNCTION = 0.0, 0.08, 0.7, 1.5, 8.0

_TINY = {dtype: np.finfo(dtype).tiny for dtype in FLOATS}


@frozen
class Kernel:
    """An operation as a computation on NumPy arrays; of several results it gives a list."""

    compute: Compute
    #: the same with XLA's zeros and subnormal numbers, see NOTE [Two readings of a kernel]
    as_xla: Compute
    #: nanoseconds that an element takes more than in a compiled program
    excess: float = ARITHMETIC
    #: whether it is one of each element, so that it goes along with NumPy's broadcasting
    elementwise: bool = False
    #: whether ``as_xla`` gives the bits of JAX's primitive
    exact: bool = True
    #: the shape of what is computed, if it has still to be broadcast to that of the result
    shape: tuple[int, ...] | None = None
    #: of a product of two matrices, the computation of its transpose: that of the factors in the other order
    transposed: Compute | None = None


#: the kernel of an operation; None where it has none
Entry = Callable[[Op], Kernel | None]
#: which kernel an operation has; None where it should be left to JAX
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
    """The kernel that gives the very bits of JAX's primitive."""
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
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x


def flushing(compute: Compute) -> Compute:
    """A computation that flushes operands and results."""
    return lambda *xs: flushed(compute(*map(flushed, xs)))
