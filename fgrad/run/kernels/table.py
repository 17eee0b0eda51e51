"""The table of kernels: the row of each primitive, looked up for an operation."""

from collections.abc import Callable

from attrs import evolve

from fgrad.graph.op import Op
from fgrad.run.kernels import elementwise as _elementwise, movement as _movement, reduction as _reduction  # noqa: F401
from fgrad.run.kernels.kernel import SUPPORTED, TABLE as TABLE, Kernel

# what few programs run is imported when it is first met
TABLE.defer(
    "fgrad.run.kernels",
    {
        "convolution": ("conv_general_dilated",),
        "decompositions": (
            *("cholesky", "eigh", "geqrf", "householder_product", "lu", "lu_pivots_to_permutation", "qr", "svd"),
            "triangular_solve",
        ),
        "products": ("dot_general",),
        "windows": (
            *("reduce_window", "reduce_window_max", "reduce_window_min", "reduce_window_sum", "select_and_scatter_add"),
        ),
    },
)

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
