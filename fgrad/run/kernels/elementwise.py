"""Kernels of elementwise functions.

NOTE [Functions by way of double precision]
A function such as ``exp`` of single-precision numbers is computed in double precision and rounded once.  The result is
nearly always the nearest number, and it is PyTorch's more often than that of XLA or of NumPy in single precision (for
``exp`` 0.99, 0.91 and 0.60 of the numbers, for ``tanh`` 1.00, 0.41 and 0.68); this takes less time than calling a
compiled program.  PyTorch computes the logistic function and the inverse root in single precision, and so do we.  In
double precision NumPy is nearer to PyTorch than XLA (``exp`` 1.00 and 0.88 of the numbers, ``tanh`` 0.84 and 0.53,
``log1p`` at most 1 and 129 units in the last place away).

Of many numbers, the time counts more: NumPy computes some functions in single precision two to six times as fast, at
most 4 units in the last place from the exact result (``tanh`` 1.4, ``sin`` and ``cos`` 1.5, ``exp`` 2.5, ``log`` 3).
"""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import jax
import numpy as np
import scipy

from fgrad.graph.op import Op
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    BOOL,
    COMPLEX,
    FLOATS,
    FUNCTION,
    INTEGERS,
    MOVED,
    NUMBERS,
    ORDERED,
    REALS,
    SLOW_FUNCTION,
    SUPPORTED,
    TABLE,
    Compute,
    Entry,
    Kernel,
    all_in,
    flushed,
    flushing,
    same,
)

_SINGLE, _DOUBLE = np.dtype("float32"), np.dtype("float64")
_SINGLES, _DOUBLES = frozenset((_SINGLE,)), frozenset((_DOUBLE,))
_BITS = INTEGERS | {BOOL}
#: from a computation to the same with XLA's zeros
AsXla = Callable[[Compute], Compute]


def _exact(compute: Compute, dtypes: frozenset[np.dtype]) -> Entry:
    """A function that does not round and keeps subnormal numbers."""
    return lambda op: same(compute, ARITHMETIC, elementwise=True) if all_in(dtypes, op) else None


def _arithmetic(
    compute: Compute, dtypes: frozenset[np.dtype], exact: bool = True, as_xla: Compute | None = None
) -> Entry:
    """A function that rounds once if it is exact; ``as_xla`` if XLA's differs in more than subnormal numbers."""

    def entry(op: Op) -> Kernel | None:
        if not all_in(dtypes, op):
            return None
        dtype = op.in_types[0].dtype
        if dtype not in FLOATS:
            return Kernel(compute, compute, ARITHMETIC, elementwise=True, exact=dtype not in COMPLEX)
        return Kernel(compute, flushing(as_xla or compute), ARITHMETIC, True, exact)

    return entry


def _flushing_results(compute: Compute) -> Compute:
    return lambda *xs: flushed(compute(*xs))


def _function_kernel(compute: Compute, excess: float = FUNCTION, as_xla: AsXla = _flushing_results) -> Kernel:
    """A function whose last bits may differ; XLA flushes its results, but not always its operands."""
    return Kernel(compute, as_xla(compute), excess, elementwise=True, exact=False)


def _in_double(function: Compute) -> Compute:
    """A function computed in double precision, and rounded: see NOTE [Functions by way of double precision]."""

    def compute(x: Any, *others: Any) -> Any:
        if others:
            return function(x.astype(_DOUBLE), *[other.astype(_DOUBLE) for other in others]).astype(_SINGLE)
        return function(x.astype(_DOUBLE)).astype(_SINGLE)

    return compute


def _by_double(function: Compute, excess: float = FUNCTION, as_xla: AsXla = _flushing_results) -> Entry:
    """A function computed in double precision, of numbers of either precision; ``as_xla`` if XLA flushes operands."""
    of_doubles, of_singles = [_function_kernel(f, excess, as_xla) for f in (function, _in_double(function))]

    def entry(op: Op) -> Kernel | None:
        if all_in(_SINGLES, op):
            return of_singles
        return of_doubles if all_in(_DOUBLES, op) else None

    return entry


def _by_size(
    function: Compute, few: Compute, many: Compute, from_size: int = 1 << 9, as_xla: AsXla = _flushing_results
) -> Entry:
    """A function of doubles, of few singles, and of many singles, from this many on."""
    of_doubles, of_few, of_many = [_function_kernel(f, as_xla=as_xla) for f in (function, few, many)]

    def entry(op: Op) -> Kernel | None:
        if all_in(_DOUBLES, op):
            return of_doubles
        if not all_in(_SINGLES, op):
            return None
        return of_few if op.in_types[0].size < from_size else of_many

    return entry


def _by_double_if_few(
    function: Compute, many: Compute | None = None, from_size: int = 1 << 9, as_xla: AsXla = _flushing_results
) -> Entry:
    """A function computed in double precision, but of many singles by NumPy's own, or another one, in theirs."""
    return _by_size(function, _in_double(function), many or function, from_size, as_xla)


def _of_scipy(name: str) -> Compute:
    """A function that NumPy lacks; SciPy imports ``special`` on attribute access."""
    return lambda x: getattr(scipy.special, name)(x)


def _digamma(x: Any) -> Any:
    return np.where(x == 0, np.nan, scipy.special.psi(x))


def _lgamma(x: Any) -> Any:
    return np.where(np.isinf(x), np.inf, scipy.special.gammaln(x))


def _div(op: Op) -> Kernel | None:
    left, right = op.in_types
    if all_in(INTEGERS, op):
        return same(_quotient, FUNCTION, elementwise=True)
    # XLA divides by a scalar by multiplying with its reciprocal
    return _arithmetic(np.divide, FLOATS | COMPLEX, exact=left.ndim == right.ndim)(op)


def _quotient(x: Any, y: Any) -> Any:
    """The quotient of integers, rounded towards zero; all bits of a quotient by zero are set."""
    quotient = (x - np.fmod(x, y)) // y
    return np.where(y == 0, ~np.zeros_like(y), quotient) if np.count_nonzero(y == 0) else quotient


def _complex(op: Op) -> Kernel:
    dtype = op.out_types[0].dtype

    def compute(real: Any, imag: Any) -> Any:
        out = np.empty(np.broadcast_shapes(real.shape, imag.shape), dtype)
        out.real, out.imag = real, imag
        return out

    return same(compute, MOVED, elementwise=True)


def _abs(op: Op) -> Kernel | None:
    if all_in(COMPLEX, op):
        return _function_kernel(np.abs)
    return _exact(np.abs, REALS)(op)


def _conjugate(dtype: np.dtype) -> Compute:
    """The conjugate; of real numbers in a complex type."""
    return lambda x: np.conjugate(x).astype(dtype, copy=False)


def _greater(x: Any, y: Any) -> Any:
    """The greater one; of two zeros the positive one."""
    zeros, result = (x == 0) & (y == 0), np.maximum(x, y)
    return np.where(zeros, x + y, result) if np.count_nonzero(zeros) else result


def _lesser(x: Any, y: Any) -> Any:
    """The lesser one; of two zeros the negative one."""
    zeros, result = (x == 0) & (y == 0), np.minimum(x, y)
    return np.where(zeros, -(-x + -y), result) if np.count_nonzero(zeros) else result


def _logistic(x: Any) -> Any:
    """The logistic function of few numbers, in single precision but for the exponential."""
    return 1 / (1 + np.exp(-x.astype(np.float64)).astype(_SINGLE))


def _logistic_at_once(x: Any) -> Any:
    """In the precision of the numbers."""
    y = np.negative(x, out=np.empty_like(x))  # without axes, too, it is an array
    np.exp(y, out=y)
    y += 1
    return np.divide(1, y, out=y)


def _log1p(x: Any) -> Any:
    """By ``log``.

    Source: Kahan, quoted in `Goldberg, 1991, theorem 4 <https://doi.org/10.1145/103162.103163>`_.
    """
    y = np.add(1, x, out=np.empty_like(x))
    logarithm = np.log(y)
    y -= 1
    np.divide(x, y, out=y)
    y *= logarithm
    # the sum was 1 or infinite
    undefined = (y != y) & (x > -1)
    return np.where(undefined, x, y) if np.count_nonzero(undefined) else y


#: the polynomials of the error function, the highest power first, and the number from which on it is 1
_ERF_ABOVE = (2.2905066e-4, 3.4082911e-3, 5.0955694e-2, 1.8520832e-1, 1.1283791)
_ERF_BELOW = (-1.1791603e-7, 2.3547966e-5, 1.0179626e-3, 1.4070470e-2, 1.1098505e-1, 4.9746925e-1, 1.0)
_ERF_END = np.float32(3.8325068)


def _erf_of_many(x: Any) -> Any:
    """A quotient of polynomials, at most 6 units in the last place from the exact result, as XLA's.

    Source: Eigen, ``erf`` in `SpecialFunctionsImpl.h <https://gitlab.com/libeigen/eigen>`_.
    """
    x = np.clip(x, -_ERF_END, _ERF_END)
    square = x * x
    y = _polynomial(_ERF_ABOVE, square)
    y *= x
    y /= _polynomial(_ERF_BELOW, square)
    return np.clip(y, -1, 1, out=y)


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    first, *middle, last = coefficients
    y = x * np.float32(first)
    for c in middle:
        y += np.float32(c)
        y *= x
    y += np.float32(last)
    return y


def _mul(op: Op) -> Kernel | None:
    # factors that are converted first, of any two types, are left to JAX
    return None if op.params.get("out_dtype") is not None else _PRODUCT(op)


_PRODUCT = _arithmetic(np.multiply, NUMBERS)


def _integer_pow(op: Op) -> Kernel | None:
    powers: dict[int, Compute] = {2: np.square, 3: lambda x: x * x * x}
    compute = powers.get(op.params["y"])
    return None if compute is None else _arithmetic(compute, REALS)(op)


def _rem(op: Op) -> Kernel | None:
    if all_in(INTEGERS, op):
        return same(lambda x, y: np.where(y == 0, x, np.fmod(x, y)), FUNCTION, elementwise=True)
    if not all_in(FLOATS, op):
        return None
    return Kernel(np.fmod, lambda x, y: np.fmod(x, flushed(y)), FUNCTION, elementwise=True)


def _round(op: Op) -> Kernel | None:
    nearest = op.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return _exact(np.rint, FLOATS)(op) if nearest else None


def _convert(op: Op) -> Kernel | None:
    old, new = op.in_types[0].dtype, op.out_types[0].dtype
    if old in FLOATS and new.kind == "c":
        to_complex = methodcaller("astype", new)
        return Kernel(to_complex, to_complex, MOVED, elementwise=True, exact=False)
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
    if cases[0].dtype not in ORDERED or op.out_types[0].size < _MANY:
        return same(lambda which, no, yes: np.where(which, yes, no), MOVED, elementwise=True)
    bits = f"int{8 * cases[0].dtype.itemsize}"
    return same(lambda which, no, yes: _chosen(which, no, yes, bits), MOVED, elementwise=True)


#: from this many elements on, five bitwise operations are faster than NumPy's ``where``, which branches per element
_MANY = 1 << 12


def _chosen(which: Any, no: Any, yes: Any, bits: str) -> Any:
    if which.size < _MANY:
        return np.where(which, yes, no)
    dtype, no, yes, mask = no.dtype, no.view(bits), yes.view(bits), which.astype(bits)
    if no.shape == mask.shape and _is_zero(yes, no):
        mask -= 1
        return np.bitwise_and(no, mask, out=mask).view(dtype)
    np.negative(mask, out=mask)
    if yes.shape == mask.shape and _is_zero(no, yes):
        return np.bitwise_and(yes, mask, out=mask).view(dtype)
    return (no ^ ((yes ^ no) & mask)).view(dtype)


def _is_zero(x: Any, other: Any) -> bool:
    """Whether an array of bits is one zero, broadcast to the shape of another at most."""
    return x.size <= other.size and not any(x.strides) and not x.item(0)


ELEMENTWISE: dict[str, Entry] = {
    "abs": _abs,
    "acos": _by_double(np.arccos),
    "acosh": _by_double(np.arccosh),
    "add": _arithmetic(np.add, NUMBERS),
    "add_any": _arithmetic(np.add, NUMBERS),
    "and": _exact(np.bitwise_and, _BITS),
    "asin": _by_double(np.arcsin),
    "asinh": _by_double(np.arcsinh),
    "atan": _by_double(np.arctan),
    "atan2": _by_double(np.arctan2, SLOW_FUNCTION),
    "atanh": _by_double(np.arctanh),
    "cbrt": _by_double(np.cbrt),
    "ceil": _arithmetic(np.ceil, FLOATS),
    "clamp": _arithmetic(lambda low, x, high: np.minimum(np.maximum(low, x), high), REALS, exact=False),
    "complex": _complex,
    "conj": lambda op: same(_conjugate(op.out_types[0].dtype), ARITHMETIC, elementwise=True),
    "convert_element_type": _convert,
    "cos": _by_double_if_few(np.cos),
    "cosh": _by_double(np.cosh),
    "digamma": _by_double(_digamma, SLOW_FUNCTION, flushing),
    "div": _div,
    "eq": _arithmetic(np.equal, SUPPORTED),
    "erf": _by_double_if_few(_of_scipy("erf"), _erf_of_many),
    "erfc": _by_double(_of_scipy("erfc"), SLOW_FUNCTION),
    "erf_inv": _by_double(_of_scipy("erfinv"), SLOW_FUNCTION),
    "exp": _by_double_if_few(np.exp),
    "exp2": _by_double(np.exp2),
    "expm1": _by_double(np.expm1),
    "floor": _arithmetic(np.floor, FLOATS),
    "ge": _arithmetic(np.greater_equal, ORDERED),
    "gt": _arithmetic(np.greater, ORDERED),
    "integer_pow": _integer_pow,
    "is_finite": _exact(np.isfinite, FLOATS),
    "le": _arithmetic(np.less_equal, ORDERED),
    "lgamma": _by_double(_lgamma, SLOW_FUNCTION, flushing),
    "log": _by_double_if_few(np.log, as_xla=flushing),
    "log1p": _by_double_if_few(np.log1p, _log1p, 1 << 11),
    "logistic": _by_size(_logistic_at_once, _logistic, _logistic_at_once),
    "lt": _arithmetic(np.less, ORDERED),
    "max": _arithmetic(np.maximum, REALS, as_xla=_greater),
    "min": _arithmetic(np.minimum, REALS, as_xla=_lesser),
    "mul": _mul,
    "ne": _arithmetic(np.not_equal, SUPPORTED),
    "neg": _exact(np.negative, NUMBERS),
    "not": _exact(np.invert, _BITS),
    "or": _exact(np.bitwise_or, _BITS),
    "pow": _by_double(np.power, SLOW_FUNCTION),
    "rem": _rem,
    "round": _round,
    "rsqrt": _arithmetic(lambda x: 1 / np.sqrt(x), FLOATS, exact=False),
    "select_n": _select,
    "sign": _arithmetic(lambda x: np.where(x == 0, x, np.sign(x)), REALS),
    "sin": _by_double_if_few(np.sin),
    "sinh": _by_double(np.sinh),
    "sqrt": _arithmetic(np.sqrt, FLOATS),
    "square": _arithmetic(np.square, NUMBERS),
    "sub": _arithmetic(np.subtract, NUMBERS),
    "tan": _by_double(np.tan, SLOW_FUNCTION),
    "tanh": _by_double_if_few(np.tanh),
    "xor": _exact(np.bitwise_xor, _BITS),
}
TABLE.update(ELEMENTWISE)
