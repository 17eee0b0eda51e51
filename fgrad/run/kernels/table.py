"""The table of kernels: the row of each primitive, looked up for an operation."""

from collections.abc import Callable

from attrs import evolve

from fgrad.graph.op import Op
from fgrad.run.kernels.elementwise import ELEMENTWISE
from fgrad.run.kernels.kernel import SUPPORTED, Entry, Kernel
from fgrad.run.kernels.movement import MOVEMENT
from fgrad.run.kernels.reduction import REDUCTION

TABLE: dict[str, Entry] = ELEMENTWISE | REDUCTION | MOVEMENT


#: which kernel an operation has; None where it should be left to JAX
KernelOf = Callable[[Op], Kernel | None]


def kernel(op: Op) -> Kernel | None:
    """The kernel that keeps subnormal numbers, as PyTorch does."""
    try:
        return op.derived["kernel"]
    except KeyError:
        found = op.derived["kernel"] = _found(op)
        return found


def kernel_as_xla(op: Op) -> Kernel | None:
    """The kernel with XLA's zeros and subnormal numbers."""
    try:
        return op.derived["kernel as XLA"]
    except KeyError:
        row = _found(op)
        found = None if row is None else evolve(row, compute=row.as_xla, transposed=None)
        op.derived["kernel as XLA"] = found
        return found


def exact_kernel(op: Op) -> Kernel | None:
    """The kernel that gives the very bits of JAX's primitive."""
    found = kernel_as_xla(op)
    return found if found is not None and found.exact else None


def _found(op: Op) -> Kernel | None:
    entry = TABLE.get(op.name)
    if entry is None or op.effects or any(t.dtype not in SUPPORTED for t in (*op.in_types, *op.out_types)):
        return None
    return entry(op)
