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

NOTE [Halves by way of singles]
Numbers of 16 bits have no kernels of their own.  Operations that move them take them as they are; all others compute in
single precision, and round the results, as PyTorch does.  A sum or a product of two of them is rounded correctly this
way, since a single has more than twice their digits.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from attrs import evolve, frozen

from fgrad.deferred import Table
from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray

Compute = Callable[..., Any]

FLOATS = frozenset(np.dtype(name) for name in ("float32", "float64"))
INTEGERS = frozenset(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = np.dtype(bool)
REALS = FLOATS | INTEGERS
ORDERED = REALS | {BOOL}
COMPLEX = frozenset(np.dtype(name) for name in ("complex64", "complex128"))
NUMBERS = REALS | COMPLEX
#: the dtypes that have kernels of their own
SUPPORTED: frozenset[np.dtype[Any]] = ORDERED | COMPLEX
#: those of 16 bits: see NOTE [Halves by way of singles]
HALVES: frozenset[np.dtype[Any]] = frozenset({np.dtype(jnp.bfloat16), np.dtype("float16")})
_SINGLE = np.dtype("float32")

#: extra nanoseconds per element, see NOTE [What NumPy costs more]: views, arithmetic, movements, functions, and
#: conversions from and to halves
FREE, ARITHMETIC, MOVED, FUNCTION, SLOW_FUNCTION, ROUNDED = 0.0, 0.08, 0.7, 1.5, 8.0, 2.5

_TINY = {dtype: np.finfo(dtype).tiny for dtype in FLOATS}


@frozen
class Places:
    """How a scatter changes its operand: where, from its indices and updates, and what it does there."""

    #: from indices and updates to flat positions and the values for them
    of: Compute
    #: combines values with the elements of a flat array at positions
    write: Callable[[np.ndarray, np.ndarray, np.ndarray], None]


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
    #: for a scatter, how it changes an array in place
    places: Places | None = None


#: the kernel of an operation; None if it has none
Entry = Callable[[Op], Kernel | None]
#: chooses the kernel of an operation; None if it should be left to JAX
KernelOf = Entry

#: by the name of a primitive; filled by the files of kernels
TABLE: Table[Entry] = Table()


@frozen
class Moving:
    """The entry of an operation that moves elements of any type, and keeps all their bits."""

    entry: Entry

    def __call__(self, op: Op) -> Kernel | None:
        return self.entry(op)


@frozen
class WithoutHalves:
    """The entry of an operation that JAX refuses for numbers of 16 bits: so it is left to JAX."""

    entry: Entry

    def __call__(self, op: Op) -> Kernel | None:
        return self.entry(op)


def kernel(op: Op) -> Kernel | None:
    """The kernel that keeps subnormal numbers, as PyTorch does."""
    if "kernel" not in op.derived:
        op.derived["kernel"] = _kernel(op)
    return op.derived["kernel"]


def _kernel(op: Op) -> Kernel | None:
    entry = TABLE.get(op.name)
    if entry is None or op.effects:
        return None
    dtypes = {t.dtype for t in (*op.in_types, *op.out_types)}
    if dtypes <= SUPPORTED:
        return entry(op)
    if not dtypes <= SUPPORTED | HALVES or isinstance(entry, WithoutHalves):
        return None
    return entry(op) if isinstance(entry, Moving) else _by_singles(op, entry)


def _by_singles(op: Op, entry: Entry) -> Kernel | None:
    """An operation on halves, computed in single precision: see NOTE [Halves by way of singles]."""
    in_types, out_types = [tuple(map(_in_singles, types)) for types in (op.in_types, op.out_types)]
    row = entry(Op(op.primitive, op.params, op.key, in_types, out_types, op.effects, op.mesh))
    if row is None:
        return None
    widened = [t.dtype in HALVES for t in op.in_types]
    dtypes = [t.dtype if t.dtype in HALVES else None for t in op.out_types]

    def rounding(function: Compute) -> Compute:
        def compute(*xs: Any) -> Any:
            out = function(*[x.astype(_SINGLE) if wide else x for x, wide in zip(xs, widened, strict=True)])
            if len(dtypes) == 1:
                return out if dtypes[0] is None else out.astype(dtypes[0])
            return [x if dtype is None else x.astype(dtype) for x, dtype in zip(out, dtypes, strict=True)]

        return compute

    excess = row.excess + ROUNDED
    return Kernel(rounding(row.compute), rounding(row.as_xla), excess, row.elementwise, exact=False, shape=row.shape)


def _in_singles(type: ShapedArray) -> ShapedArray:
    return ShapedArray(type.shape, _SINGLE) if type.dtype in HALVES else type


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


def all_in(dtypes: frozenset[np.dtype], op: Op) -> bool:
    """Whether all operands have one of some types."""
    return all(t.dtype in dtypes for t in op.in_types)


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
