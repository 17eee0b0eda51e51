"""The table of kernels: the row of each primitive, looked up for an operation."""

from collections.abc import Callable

from attrs import evolve

from fgrad.graph.op import Op
from fgrad.run.kernels.convolution import CONVOLUTION
from fgrad.run.kernels.decompositions import DECOMPOSITIONS
from fgrad.run.kernels.elementwise import ELEMENTWISE
from fgrad.run.kernels.kernel import SUPPORTED, Entry, Kernel
from fgrad.run.kernels.movement import MOVEMENT
from fgrad.run.kernels.reduction import REDUCTION
from fgrad.run.kernels.windows import WINDOWS

TABLE: dict[str, Entry] = ELEMENTWISE | REDUCTION | MOVEMENT | CONVOLUTION | WINDOWS | DECOMPOSITIONS

#: which kernel an operation has; None where it should be left to JAX
KernelOf = Callable[[Op], Kernel | None]


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
    found = kernel_as_xla(op)
    return found if found is not None and found.exact else None
