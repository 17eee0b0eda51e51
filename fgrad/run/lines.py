"""Single operations as NumPy computes them fast: the lines of which small graphs are made.

NOTE [Functions by way of double precision]
A function such as ``exp`` of single-precision numbers is NumPy's of them in double precision, rounded once.  That is
the nearest number nearly always, and PyTorch's more often than XLA's or NumPy's own ones in single precision are (of
``exp`` 0.99, 0.91 and 0.60 of the numbers, of ``tanh`` 1.00, 0.41 and 0.68); it takes less time than to call a compiled
program.  The logistic function and the inverse root PyTorch makes of others in single precision, and so they are here.

NOTE [What NumPy costs more]
A compiled program goes through an array once for all its operations, with several threads; NumPy goes through it for
each operation with one, but begins at once.  Each line therefore says by how much NumPy takes longer for an element,
from what was measured on two cores; matrix products, on which both spend the same time, cost nothing.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray
from fgrad.run.numbers import (
    BOOL,
    FLOATS,
    INTEGERS,
    REALS,
    aligned,
    computation,
    movement,
    scattering,
    sign,
    sorting,
)

ANY = REALS | {BOOL}
_SINGLE, _DOUBLE = np.dtype("float32"), np.dtype("float64")

#: nanoseconds an element, see NOTE [What NumPy costs more]: of views, arithmetic, elements put elsewhere, functions,
#: and what Python computes
_FREE, _ARITHMETIC, _MOVED, _FUNCTION, _SLOW_FUNCTION, _PYTHON = 0.0, 0.08, 0.7, 1.5, 8.0, 120.0


@frozen
class Line:
    """An operation as a computation on arrays."""

    compute: Callable[..., Any]
    #: whether it is one of each element, so that it goes along with NumPy's broadcasting
    elementwise: bool = False
    #: nanoseconds that an element takes more than in a compiled program
    excess: float = _ARITHMETIC
    #: of a product of two matrices, the computation of its transpose: that of the factors in the other order
    turned: Callable[..., Any] | None = None


_Entry = Callable[[Op], Line | None]


def line(op: Op) -> Line | None:
    """How NumPy computes an operation, of several results as a list; None where it does not, or not fast."""
    if op.effects:
        return None
    entry = _TABLE.get(op.name)
    if entry is not None:
        return entry(op)
    moved = movement(op)
    return None if moved is None else Line(moved, excess=_FREE if op.name in _VIEWS else _MOVED)


#: what NumPy does without touching the elements, so that only a result costs a copy
_VIEWS = frozenset({"reshape", "slice", "split", "squeeze", "transpose", "unstack"})


def _elementwise(function: Callable[..., Any], dtypes: frozenset[np.dtype], excess: float = _ARITHMETIC) -> _Entry:
    return lambda op: Line(function, True, excess) if all(t.dtype in dtypes for t in op.in_types) else None


def _by_double(function: Callable[..., Any], excess: float = _FUNCTION) -> _Entry:
    """A function of single-precision numbers; see NOTE [Functions by way of double precision]."""

    def entry(op: Op) -> Line | None:
        if any(t.dtype != _SINGLE for t in op.in_types):
            return None
        return Line(lambda *xs: function(*[x.astype(np.float64) for x in xs]).astype(_SINGLE), True, excess)

    return entry


def _one_by_one(function: Callable[[float], float]) -> _Entry:
    """A function that NumPy has not: of numbers met a few times it is still done before a program is compiled."""
    return _by_double(lambda x: np.asarray(np.frompyfunc(function, 1, 1)(x), np.float64), _PYTHON)


def _in_both(function: Callable[..., Any], excess: float = _FUNCTION) -> _Entry:
    """A function that NumPy has as exactly in double precision as XLA."""
    single, double = _by_double(function, excess), _elementwise(function, frozenset({_DOUBLE}), excess)
    return lambda op: double(op) or single(op)


def _broadcast(op: Op) -> Line | None:
    if len(op.in_types) != 1:
        return None
    below = aligned(op)
    return Line(lambda x: x.reshape(below), excess=_FREE)


def _convert(op: Op) -> Line | None:
    old, new = op.in_types[0].dtype, op.out_types[0].dtype
    if old in FLOATS and new in INTEGERS:
        return Line(_to_integers(old, new), True, _FUNCTION)
    return Line(lambda x: x.astype(new), True)


def _to_integers(old: np.dtype, new: np.dtype) -> Callable[..., Any]:
    """Towards zero; numbers beyond the range become its ends, and NaN 0, as XLA has it."""
    ends = np.iinfo(new)
    low, high = old.type(ends.min), old.type(ends.max)  # the upper one may be rounded to the first number beyond

    def compute(x: Any) -> Any:
        inside = (x >= low) & (x < high)
        if inside.all():
            return x.astype(new)
        ended = np.where(x >= high, new.type(ends.max), np.where(x < low, new.type(ends.min), new.type(0)))
        return np.where(inside, np.where(inside, x, 0).astype(new), ended)

    return compute


def _integer_pow(op: Op) -> Line | None:
    powers: dict[int, Callable[..., Any]] = {2: np.square, 3: lambda x: x * x * x}
    compute = powers.get(op.params["y"])
    return None if compute is None or op.in_types[0].dtype not in REALS else Line(compute, True)


def _select(op: Op) -> Line | None:
    if op.in_types[0].dtype != BOOL or len(op.in_types) != 3:
        return None
    bits = np.dtype(f"int{8 * op.in_types[1].dtype.itemsize}")
    return Line(lambda which, no, yes: _chosen(which, no, yes, bits), True, _MOVED)


#: from so many elements on NumPy's ``where``, which jumps for each, is slower than five operations on bits
_MANY = 1 << 12


def _chosen(which: Any, no: Any, yes: Any, bits: np.dtype) -> Any:
    if which.size < _MANY:
        return np.where(which, yes, no)
    dtype, no, yes = no.dtype, no.view(bits), yes.view(bits)
    return (no ^ ((yes ^ no) & -which.astype(bits))).view(dtype)


def _sum(op: Op) -> Line | None:
    dtype, axes = op.in_types[0].dtype, tuple(op.params["axes"])
    if dtype not in REALS:
        return None
    if len(axes) == op.in_types[0].ndim:
        return Line(lambda x: np.add.reduce(x, None, dtype))
    return Line(lambda x: np.add.reduce(x, axes, dtype))


def _reduction(function: np.ufunc, dtypes: frozenset[np.dtype]) -> _Entry:
    def entry(op: Op) -> Line | None:
        axes = tuple(op.params["axes"])
        if op.in_types[0].dtype not in dtypes or op.in_types[0].size == 0:
            return None
        return Line(lambda x: function.reduce(x, axes))

    return entry


def _place(function: Callable[..., Any]) -> _Entry:
    """The first place of an extreme element, or of the first NaN."""

    def entry(op: Op) -> Line | None:
        (axis,), dtype = op.params["axes"], op.out_types[0].dtype
        if op.in_types[0].size == 0:
            return None
        return Line(lambda x: function(x, axis).astype(dtype))

    return entry


def _cumsum(op: Op) -> Line | None:
    dtype, axis = op.in_types[0].dtype, op.params["axis"]
    if op.params["reverse"] or dtype not in REALS:
        return None
    return Line(lambda x: np.add.accumulate(x, axis, dtype))


def _fixed(op: Op) -> Line | None:
    """What has no operands is computed once."""
    compute = computation(op)
    return None if compute is None else Line(compute, excess=_FREE)


def _scatter_add(op: Op) -> Line | None:
    compute = scattering(op, np.add.at) if op.in_types[0].dtype in REALS else None
    return None if compute is None else Line(compute, excess=_FUNCTION)


def _sort(op: Op) -> Line | None:
    compute = sorting(op, lambda x: x)
    return None if compute is None else Line(compute)


def _dot(op: Op) -> Line | None:
    """A product of matrices, of many where there are batches: other axes are brought into order around it."""
    left, right, out = (*op.in_types, *op.out_types)
    if not left.dtype == right.dtype == out.dtype or out.dtype not in FLOATS:
        return None
    (inner_l, inner_r), (batch_l, batch_r) = op.params["dimension_numbers"]
    outer_l = [i for i in range(left.ndim) if i not in (*inner_l, *batch_l)]
    outer_r = [i for i in range(right.ndim) if i not in (*inner_r, *batch_r)]
    batch, inner = _sizes(left, batch_l), math.prod(_sizes(left, inner_l))
    before = _arranged(left, (*batch_l, *outer_l, *inner_l), (*batch, math.prod(_sizes(left, outer_l)), inner))
    behind = _arranged(right, (*batch_r, *inner_r, *outer_r), (*batch, inner, math.prod(_sizes(right, outer_r))))
    shape = out.shape
    if len(outer_l) == len(outer_r) == 1:
        turned = None if batch else lambda x, y: np.matmul(behind(y).T, before(x).T)
        return Line(lambda x, y: np.matmul(before(x), behind(y)), turned=turned)
    return Line(lambda x, y: np.matmul(before(x), behind(y)).reshape(shape))


def _arranged(type: ShapedArray, order: tuple[int, ...], shape: tuple[int, ...]) -> Callable[..., Any]:
    """What brings an array's axes in this order, and then to this shape."""
    if order == tuple(range(type.ndim)):
        return (lambda x: x) if shape == type.shape else lambda x: x.reshape(shape)
    if _sizes(type, order) == shape:
        return lambda x: x.transpose(order)
    return lambda x: x.transpose(order).reshape(shape)


def _sizes(type: ShapedArray, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([type.shape[i] for i in axes])


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)).astype(_SINGLE))


def _clamped(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(low, x), high)


_TABLE: dict[str, _Entry] = {
    "abs": _elementwise(np.abs, REALS),
    "acos": _by_double(np.arccos),
    "acosh": _by_double(np.arccosh),
    "add": _elementwise(np.add, REALS),
    "add_any": _elementwise(np.add, REALS),
    "and": _elementwise(np.bitwise_and, INTEGERS | {BOOL}),
    "argmax": _place(np.argmax),
    "argmin": _place(np.argmin),
    "asin": _by_double(np.arcsin),
    "asinh": _by_double(np.arcsinh),
    "atan": _by_double(np.arctan),
    "atan2": _by_double(np.arctan2, _SLOW_FUNCTION),
    "atanh": _by_double(np.arctanh),
    "broadcast_in_dim": _broadcast,
    "cbrt": _by_double(np.cbrt),
    "ceil": _elementwise(np.ceil, FLOATS),
    "clamp": _elementwise(_clamped, REALS),
    "convert_element_type": _convert,
    "cos": _by_double(np.cos, _SLOW_FUNCTION),
    "cosh": _by_double(np.cosh),
    "cumsum": _cumsum,
    "div": _elementwise(np.divide, FLOATS),
    "dot_general": _dot,
    "eq": _elementwise(np.equal, ANY),
    "erf": _one_by_one(math.erf),
    "erfc": _one_by_one(math.erfc),
    "exp": _in_both(np.exp),
    "exp2": _by_double(np.exp2),
    "expm1": _by_double(np.expm1),
    "floor": _elementwise(np.floor, FLOATS),
    "ge": _elementwise(np.greater_equal, ANY),
    "gt": _elementwise(np.greater, ANY),
    "integer_pow": _integer_pow,
    "iota": _fixed,
    "le": _elementwise(np.less_equal, ANY),
    "log": _by_double(np.log),
    "log1p": _by_double(np.log1p),
    "logistic": _elementwise(_logistic, frozenset({_SINGLE}), _FUNCTION),
    "lt": _elementwise(np.less, ANY),
    "max": _elementwise(np.maximum, REALS),
    "min": _elementwise(np.minimum, REALS),
    "mul": _elementwise(np.multiply, REALS),
    "ne": _elementwise(np.not_equal, ANY),
    "neg": _elementwise(np.negative, REALS),
    "not": _elementwise(np.invert, INTEGERS | {BOOL}),
    "or": _elementwise(np.bitwise_or, INTEGERS | {BOOL}),
    "pow": _in_both(np.power, _SLOW_FUNCTION),
    "reduce_and": _reduction(np.logical_and, frozenset({BOOL})),
    "reduce_max": _reduction(np.maximum, ANY),
    "reduce_min": _reduction(np.minimum, ANY),
    "reduce_or": _reduction(np.logical_or, frozenset({BOOL})),
    "reduce_sum": _sum,
    "rsqrt": _elementwise(lambda x: 1 / np.sqrt(x), frozenset({_SINGLE})),
    "scatter-add": _scatter_add,
    "select_n": _select,
    "sign": _elementwise(sign, REALS),
    "sin": _by_double(np.sin, _SLOW_FUNCTION),
    "sinh": _by_double(np.sinh),
    "sort": _sort,
    "sqrt": _elementwise(np.sqrt, FLOATS),
    "square": _elementwise(np.square, REALS),
    "sub": _elementwise(np.subtract, REALS),
    "tan": _by_double(np.tan, _SLOW_FUNCTION),
    "tanh": _in_both(np.tanh),
    "xor": _elementwise(np.bitwise_xor, INTEGERS | {BOOL}),
}
