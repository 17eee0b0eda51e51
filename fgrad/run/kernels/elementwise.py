"""Kernels of elementwise functions.

NOTE [Functions by way of double precision]
A function such as ``exp`` of single-precision numbers is computed in double precision and rounded once.  The result is
nearly always the nearest number, and it is PyTorch's more often than that of XLA or of NumPy in single precision (for
``exp`` 0.99, 0.91 and 0.60 of the numbers, for ``tanh`` 1.00, 0.41 and 0.68); this takes less time than calling a
compiled program.  PyTorch computes the logistic function and the inverse root in single precision, and so do we.
"""

from functools import partial
from operator import methodcaller
from typing import Any

import jax
import numpy as np
import scipy

from fgrad.graph.op import Op
from fgrad.run.kernels.helpers import PROCESSORS, slices_of, together
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    BOOL,
    FLOATS,
    FUNCTION,
    INTEGERS,
    MOVED,
    ORDERED,
    REALS,
    SLOW_FUNCTION,
    TABLE,
    Compute,
    Entry,
    Kernel,
    flushed,
    flushing,
    same,
)

_SINGLE, _DOUBLE = np.dtype("float32"), np.dtype("float64")
_BITS = INTEGERS | {BOOL}


def _exact(compute: Compute, dtypes: frozenset[np.dtype]) -> Entry:
    """A function that does not round and keeps subnormal numbers."""
    return lambda op: same(compute, ARITHMETIC, elementwise=True) if _all_in(dtypes, op) else None


def _arithmetic(
    compute: Compute, dtypes: frozenset[np.dtype], exact: bool = True, as_xla: Compute | None = None
) -> Entry:
    """A function that rounds once if it is exact; ``as_xla`` if XLA's differs in more than subnormal numbers."""

    def entry(op: Op) -> Kernel | None:
        if not _all_in(dtypes, op):
            return None
        if op.in_types[0].dtype not in FLOATS:
            return same(compute, ARITHMETIC, elementwise=True)
        return Kernel(compute, flushing(as_xla or compute), ARITHMETIC, True, exact)

    return entry


def _all_in(dtypes: frozenset[np.dtype], op: Op) -> bool:
    return all(t.dtype in dtypes for t in op.in_types)


def _function(compute: Compute, dtype: np.dtype, excess: float = FUNCTION) -> Entry:
    """A function whose last bits may differ; XLA flushes its results, but not always its operands."""
    compute = _in_parts(compute)
    kernel = Kernel(compute, lambda *xs: flushed(compute(*xs)), excess, elementwise=True, exact=False)
    return lambda op: kernel if all(t.dtype == dtype for t in op.in_types) else None


def _in_parts(function: Compute) -> Compute:
    """A function that computes large arrays in parts, if it has one operand: see NOTE [Helpers]."""

    def compute(*xs: Any) -> Any:
        x = xs[0]
        if x.size < 2 * FUNCTION_PART or len(xs) > 1:
            return function(*xs)
        count = min(PROCESSORS, x.size // FUNCTION_PART)
        outermost = max(range(x.ndim), key=lambda axis: abs(x.strides[axis]))
        if count < 2 or x.shape[outermost] < count:
            return function(x)
        out = np.empty_like(x)

        def part(position: tuple[slice, ...]) -> None:
            out[position] = function(x[position])

        before = (slice(None),) * outermost
        together([partial(part, (*before, s)) for s in slices_of(x.shape[outermost], count)])
        return out

    return compute


def _by_double(function: Compute, excess: float = FUNCTION) -> Entry:
    """A function of single-precision numbers; see NOTE [Functions by way of double precision]."""

    def compute(x: Any, *others: Any) -> Any:
        if others:
            return function(x.astype(_DOUBLE), *[other.astype(_DOUBLE) for other in others]).astype(_SINGLE)
        return function(x.astype(_DOUBLE)).astype(_SINGLE)

    return _function(compute, _SINGLE, excess)


def _of_scipy(name: str) -> Entry:
    """A function that NumPy lacks; SciPy imports ``special`` on attribute access."""
    return _by_double(lambda x: getattr(scipy.special, name)(x), SLOW_FUNCTION)


def _in_both(function: Compute, excess: float = FUNCTION) -> Entry:
    """A function for which NumPy is as accurate in double precision as XLA."""
    single, double = _by_double(function, excess), _function(function, _DOUBLE, excess)
    return lambda op: double(op) or single(op)


def _div(op: Op) -> Kernel | None:
    # XLA divides by a scalar by multiplying with its reciprocal
    left, right = op.in_types
    return _arithmetic(np.divide, FLOATS, exact=left.ndim == right.ndim)(op)


def _greater(x: Any, y: Any) -> Any:
    """The greater one; of two zeros the positive one."""
    zeros, result = (x == 0) & (y == 0), np.maximum(x, y)
    return np.where(zeros, x + y, result) if np.count_nonzero(zeros) else result


def _lesser(x: Any, y: Any) -> Any:
    """The lesser one; of two zeros the negative one."""
    zeros, result = (x == 0) & (y == 0), np.minimum(x, y)
    return np.where(zeros, -(-x + -y), result) if np.count_nonzero(zeros) else result


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)).astype(_SINGLE))


def _tanh(x: Any) -> Any:
    """In double precision; for large arrays by ``exp``, which takes NumPy a third of the time of its ``tanh``."""
    y = x.astype(_DOUBLE)
    if x.size < _FEW:
        return np.tanh(y).astype(_SINGLE)
    y += y
    np.exp(y, y)
    y += 1
    np.divide(-2, y, y)
    y += 1
    result = y.astype(_SINGLE)
    np.copyto(result, x, where=np.abs(x) < _LINEAR)
    return result


def _integer_pow(op: Op) -> Kernel | None:
    powers: dict[int, Compute] = {2: np.square, 3: lambda x: x * x * x}
    compute = powers.get(op.params["y"])
    return None if compute is None else _arithmetic(compute, REALS)(op)


def _rem(op: Op) -> Kernel | None:
    if _all_in(INTEGERS, op):
        return same(lambda x, y: np.where(y == 0, x, np.fmod(x, y)), FUNCTION, elementwise=True)
    if not _all_in(FLOATS, op):
        return None
    return Kernel(np.fmod, lambda x, y: np.fmod(x, flushed(y)), FUNCTION, elementwise=True)


def _round(op: Op) -> Kernel | None:
    nearest = op.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return _exact(np.rint, FLOATS)(op) if nearest else None


def _convert(op: Op) -> Kernel | None:
    old, new = op.in_types[0].dtype, op.out_types[0].dtype
    if old not in ORDERED or new not in ORDERED:
        return None
    if old in FLOATS and new in INTEGERS:
        return same(_to_integers(old, new), FUNCTION, elementwise=True)
    return _arithmetic(methodcaller("astype", new), ORDERED)(op)


def _to_integers(old: np.dtype, new: np.dtype) -> Compute:
    """Round towards zero, clamp to the range, and convert NaN to 0, as XLA does."""
    ends = np.iinfo(new)
    low, high = old.type(ends.min), old.type(ends.max)  # ``high`` may be rounded up to the first number out of range

    def compute(x: Any) -> Any:
        inside = (x >= low) & (x < high)
        if np.logical_and.reduce(inside, None):
            return x.astype(new)
        clamped = np.where(x >= high, new.type(ends.max), np.where(x < low, new.type(ends.min), new.type(0)))
        return np.where(inside, np.where(inside, x, 0).astype(new), clamped)

    return compute


def _select(op: Op) -> Kernel | None:
    which, *cases = op.in_types
    if len(cases) == 1:
        return same(lambda which, only: only[...], MOVED)
    if which.dtype != BOOL or len(cases) != 2:
        return None
    bits = f"int{8 * cases[0].dtype.itemsize}" if cases[0].dtype in ORDERED else ""
    return same(lambda which, no, yes: _chosen(which, no, yes, bits), MOVED, elementwise=True)


#: the elements of a part of a function
FUNCTION_PART = 1 << 14
#: fewer elements NumPy's ``tanh`` computes faster
_FEW = 1 << 9
#: the hyperbolic tangent of smaller numbers is the number, in single precision
_LINEAR = np.float32(1e-4)
#: from this many elements on, five bitwise operations are faster than NumPy's ``where``, which branches per element
_MANY = 1 << 12


def _chosen(which: Any, no: Any, yes: Any, bits: str) -> Any:
    if which.size < _MANY or not bits:
        return np.where(which, yes, no)
    dtype, no, yes = no.dtype, no.view(bits), yes.view(bits)
    return (no ^ ((yes ^ no) & -which.astype(bits))).view(dtype)


_TANH_SINGLE, _TANH_DOUBLE = _function(_tanh, _SINGLE), _function(np.tanh, _DOUBLE)

ELEMENTWISE: dict[str, Entry] = {
    "abs": _exact(np.abs, REALS),
    "acos": _by_double(np.arccos),
    "acosh": _by_double(np.arccosh),
    "add": _arithmetic(np.add, REALS),
    "add_any": _arithmetic(np.add, REALS),
    "and": _exact(np.bitwise_and, _BITS),
    "asin": _by_double(np.arcsin),
    "asinh": _by_double(np.arcsinh),
    "atan": _by_double(np.arctan),
    "atan2": _by_double(np.arctan2, SLOW_FUNCTION),
    "atanh": _by_double(np.arctanh),
    "cbrt": _by_double(np.cbrt),
    "ceil": _arithmetic(np.ceil, FLOATS),
    "clamp": _arithmetic(lambda low, x, high: np.minimum(np.maximum(low, x), high), REALS, exact=False),
    "convert_element_type": _convert,
    "cos": _by_double(np.cos, SLOW_FUNCTION),
    "cosh": _by_double(np.cosh),
    "div": _div,
    "eq": _arithmetic(np.equal, ORDERED),
    "erf": _of_scipy("erf"),
    "erfc": _of_scipy("erfc"),
    "exp": _in_both(np.exp),
    "exp2": _by_double(np.exp2),
    "expm1": _by_double(np.expm1),
    "floor": _arithmetic(np.floor, FLOATS),
    "ge": _arithmetic(np.greater_equal, ORDERED),
    "gt": _arithmetic(np.greater, ORDERED),
    "integer_pow": _integer_pow,
    "is_finite": _exact(np.isfinite, FLOATS),
    "le": _arithmetic(np.less_equal, ORDERED),
    "log": _by_double(np.log),
    "log1p": _by_double(np.log1p),
    "logistic": _function(_logistic, _SINGLE),
    "lt": _arithmetic(np.less, ORDERED),
    "max": _arithmetic(np.maximum, REALS, as_xla=_greater),
    "min": _arithmetic(np.minimum, REALS, as_xla=_lesser),
    "mul": _arithmetic(np.multiply, REALS),
    "ne": _arithmetic(np.not_equal, ORDERED),
    "neg": _exact(np.negative, REALS),
    "not": _exact(np.invert, _BITS),
    "or": _exact(np.bitwise_or, _BITS),
    "pow": _in_both(np.power, SLOW_FUNCTION),
    "rem": _rem,
    "round": _round,
    "rsqrt": _arithmetic(lambda x: 1 / np.sqrt(x), frozenset({_SINGLE}), exact=False),
    "select_n": _select,
    "sign": _arithmetic(lambda x: np.where(x == 0, x, np.sign(x)), REALS),
    "sin": _by_double(np.sin, SLOW_FUNCTION),
    "sinh": _by_double(np.sinh),
    "sqrt": _arithmetic(np.sqrt, FLOATS),
    "square": _arithmetic(np.square, REALS),
    "sub": _arithmetic(np.subtract, REALS),
    "tan": _by_double(np.tan, SLOW_FUNCTION),
    "tanh": lambda op: _TANH_DOUBLE(op) or _TANH_SINGLE(op),
    "xor": _exact(np.bitwise_xor, _BITS),
}
TABLE.update(ELEMENTWISE)
