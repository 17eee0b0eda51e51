"""Primitives that NumPy computes to the same bits as XLA, without a compiler.

NOTE [NumPy runs what is met first]
JAX compiles each primitive anew for each shape, which takes some 40 ms; the first run of a program spends nearly all
its time so.  Most primitives of such a run only move elements or do arithmetic that IEEE 754 fixes to the last bit,
and NumPy does these at once.  So a graph that is met for the first time runs through this table, on small arrays on
the CPU; what is not in the table (sums and products of many terms, functions such as ``exp``) goes to JAX as before.
XLA's arithmetic flushes subnormal numbers to zero, operands and results, and so does this.

An entry takes an operation and gives the function that computes it on NumPy arrays, or None where the two might differ.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import jax
import numpy as np

from fgrad.graph.op import Op
from fgrad.run.places import gathered, scattered

Compute = Callable[..., Any]
Entry = Callable[[Op], Compute | None]

#: so many elements at most, all operands and results of a primitive together
SIZE_LIMIT = 1 << 16

FLOATS = frozenset(np.dtype(name) for name in ("float32", "float64"))
INTEGERS = frozenset(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = np.dtype(bool)
REALS = FLOATS | INTEGERS
_NUMBERS = REALS | {np.dtype("complex64"), np.dtype("complex128")}
_ANY = _NUMBERS | {BOOL}
_TINY = {dtype: np.finfo(dtype).tiny for dtype in FLOATS}


def computation(op: Op) -> Compute | None:
    """How NumPy computes an operation; None where it should be left to JAX."""
    try:
        return op.derived["numbers"]
    except KeyError:
        found = op.derived["numbers"] = _computation(op)
        return found


def movement(op: Op) -> Compute | None:
    """How NumPy computes an operation that does nothing but put elements elsewhere; None for any other."""
    return _found(_MOVES, op)


def _computation(op: Op) -> Compute | None:
    if sum(t.size for t in (*op.in_types, *op.out_types)) > SIZE_LIMIT:
        return None
    return _found(_TABLE, op)


def _found(table: dict[str, Entry], op: Op) -> Compute | None:
    entry = table.get(op.name)
    if entry is None or op.effects or any(t.dtype not in _ANY for t in (*op.in_types, *op.out_types)):
        return None
    return entry(op)


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _flushed(x: Any) -> Any:
    small = np.abs(x) < _TINY[x.dtype]
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x


def _arithmetic(function: Compute, dtypes: frozenset[np.dtype]) -> Entry:
    """An elementwise function that rounds once, of operands of these types."""

    def entry(op: Op) -> Compute | None:
        if any(t.dtype not in dtypes for t in op.in_types):
            return None
        if op.in_types[0].dtype not in FLOATS:
            return function
        return lambda *xs: _normal_result(function(*map(_flushed, xs)))

    return entry


def _normal_result(out: Any) -> Any:
    return _flushed(out) if out.dtype in FLOATS else out


def _exact(function: Compute, dtypes: frozenset[np.dtype]) -> Entry:
    """An elementwise function that does not round, and keeps subnormal numbers."""
    return lambda op: function if op.in_types[0].dtype in dtypes else None


def _div(op: Op) -> Compute | None:
    # by a scalar, XLA multiplies with the reciprocal
    return _arithmetic(np.divide, FLOATS)(op) if op.in_types[0].ndim == op.in_types[1].ndim else None


def sign(x: Any) -> Any:
    return np.where(x == 0, x, np.sign(x))


def _max(x: Any, y: Any) -> Any:
    """The greater one; of two zeros the positive one."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def _min(x: Any, y: Any) -> Any:
    """The lesser one; of two zeros the negative one."""
    return np.where((x == 0) & (y == 0), -(-x + -y), np.minimum(x, y))


def _integer_pow(op: Op) -> Compute | None:
    if op.params["y"] not in (2, 3):
        return None
    return _arithmetic({2: np.square, 3: lambda x: x * _normal_result(x * x)}[op.params["y"]], REALS)(op)


def _round(op: Op) -> Compute | None:
    nearest = op.params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return np.rint if nearest and op.in_types[0].dtype in FLOATS else None


def _convert(op: Op) -> Compute | None:
    old, new = op.in_types[0].dtype, op.out_types[0].dtype
    if new == BOOL:
        return None if old in FLOATS else lambda x: x != 0
    if old in FLOATS and new in FLOATS:
        return lambda x: _flushed(_flushed(x).astype(new))
    if old in FLOATS | _NUMBERS - REALS:
        return None
    return lambda x: x.astype(new)


def _select(op: Op) -> Compute | None:
    if op.in_types[0].dtype != BOOL:
        return (lambda which, only: only) if len(op.in_types) == 2 else None
    return (lambda which, no, yes: np.where(which, yes, no)) if len(op.in_types) == 3 else None


def _reduction(function: Compute, dtypes: frozenset[np.dtype]) -> Entry:
    """A reduction whose result does not depend on the order of the elements."""

    def entry(op: Op) -> Compute | None:
        if op.in_types[0].dtype not in dtypes or op.in_types[0].size == 0:
            return None
        axes = tuple(op.params["axes"])
        return lambda x: function(x, axis=axes)

    return entry


def _reduce_sum(op: Op) -> Compute | None:
    dtype = op.in_types[0].dtype
    if dtype not in INTEGERS:
        return None
    axes = tuple(op.params["axes"])
    return lambda x: np.sum(x, axis=axes, dtype=dtype)


def _place(function: Compute) -> Entry:
    """The first place of an extreme element, or of the first NaN."""

    def entry(op: Op) -> Compute | None:
        if op.in_types[0].dtype not in REALS | {BOOL} or op.in_types[0].size == 0:
            return None
        (axis,) = op.params["axes"]
        return lambda x: function(_flushed(x) if x.dtype in FLOATS else x, axis=axis)

    return entry


# -- moving elements -------------------------------------------------------------------------------------------------


def _reshape(op: Op) -> Compute | None:
    return _squeeze(op) if op.params["dimensions"] is None else None


def _squeeze(op: Op) -> Compute:
    shape = op.out_types[0].shape
    return lambda x: x.reshape(shape)  # a third of the time that ``np.reshape`` takes


def aligned(op: Op) -> tuple[int, ...]:
    """The shape of an operand that is to be broadcast, with its axes below those of the result."""
    shape = [1] * len(op.out_types[0].shape)
    for place, n in zip(op.params["broadcast_dimensions"], op.in_types[0].shape, strict=True):
        shape[place] = n
    return tuple(shape)


def _broadcast(op: Op) -> Compute | None:
    if len(op.in_types) != 1:
        return None
    shape, below = op.out_types[0].shape, aligned(op)
    return lambda x: np.broadcast_to(np.reshape(x, below), shape)


def _transpose(op: Op) -> Compute:
    order = tuple(op.params["permutation"])
    return lambda x: np.transpose(x, order)


def _rev(op: Op) -> Compute:
    axes = tuple(op.params["dimensions"])
    return lambda x: np.flip(x, axes)


def _slice(op: Op) -> Compute:
    params = op.params
    strides = params["strides"] or (1,) * len(params["start_indices"])
    place = tuple(map(slice, params["start_indices"], params["limit_indices"], strides))
    return lambda x: x[place]


def _concatenate(op: Op) -> Compute:
    axis = op.params["dimension"]
    return lambda *xs: np.concatenate(xs, axis)


def _split(op: Op) -> Compute:
    sizes, before = op.params["sizes"], (slice(None),) * op.params["axis"]
    if len(sizes) == 1:
        return lambda x: x
    places = [(*before, slice(end - size, end)) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    return lambda x: [x[place] for place in places]


def _stack(op: Op) -> Compute:
    axis = op.params["axis"]
    return lambda *xs: np.stack(xs, axis)


def _unstack(op: Op) -> Compute:
    axis = op.params["axis"]
    if op.in_types[0].shape[axis] == 1:
        return lambda x: x.squeeze(axis)
    before = (slice(None),) * axis
    # with an ellipsis it is an array though it be one number
    places = [(*before, i, ...) for i in range(op.in_types[0].shape[axis])]
    return lambda x: [x[place] for place in places]


def _pad(op: Op) -> Compute | None:
    config = op.params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    shape = op.out_types[0].shape
    place = tuple(
        slice(low, low + (n - 1) * (gap + 1) + 1 if n else low, gap + 1)
        for (low, _, gap), n in zip(config, op.in_types[0].shape, strict=True)
    )

    def compute(x: Any, filling: Any) -> Any:
        out = np.full(shape, filling, x.dtype)
        out[place] = x
        return out

    return compute


def _iota(op: Op) -> Compute | None:
    type, axis = op.out_types[0], op.params["dimension"]
    if op.in_types or type.dtype not in REALS:
        return None
    n = type.shape[axis]
    aligned = [n if i == axis else 1 for i in range(type.ndim)]
    return lambda: np.broadcast_to(np.arange(n, dtype=type.dtype).reshape(aligned), type.shape)


def _window(sizes: Sequence[int], shape: Sequence[int]) -> Callable[..., tuple[slice, ...]]:
    """From starts to where a window of these sizes lies that JAX has moved inside an array of this shape."""
    axes = [(size, n - size) for size, n in zip(sizes, shape, strict=True)]

    def window(starts: Sequence[Any]) -> tuple[slice, ...]:
        place = []
        for start, (size, last) in zip(starts, axes, strict=True):
            first = min(max(int(start), 0), last)
            place.append(slice(first, first + size))
        return tuple(place)

    return window


def _dynamic_slice(op: Op) -> Compute | None:
    sizes = op.params["slice_sizes"]
    window = _window(sizes, op.in_types[0].shape)
    return None if len(op.in_types) != 1 + len(sizes) else lambda x, *starts: x[window(starts)]


def _dynamic_update_slice(op: Op) -> Compute:
    window = _window(op.in_types[1].shape, op.in_types[0].shape)

    def compute(x: Any, update: Any, *starts: Any) -> Any:
        out = x.copy()
        out[window(starts)] = update
        return out

    return compute


# -- gather, scatter and sort ----------------------------------------------------------------------------------------


def _gather(op: Op) -> Compute | None:
    mode, fill = op.params["mode"], op.params["fill_value"]
    fills = mode == jax.lax.GatherScatterMode.FILL_OR_DROP
    dtype, places = op.out_types[0].dtype, gathered(op)
    if places is None:
        return None
    if fills and fill is None:
        fill = _filling(dtype)

    def compute(x: Any, indices: Any) -> Any:
        at, inside = places.of(indices)
        found = x.reshape(-1).take(at)
        return np.where(inside, found, fill).astype(dtype) if fills and inside is not None else found

    return compute


def _filling(dtype: np.dtype) -> Any:
    if dtype in INTEGERS:
        return np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min
    return dtype == BOOL if dtype == BOOL else np.nan


def scattering(op: Op, write: Callable[[Any, Any, Any], None]) -> Compute | None:
    """A scatter; ``write`` does it to a flat array at some places."""
    clips = op.params["mode"] == jax.lax.GatherScatterMode.CLIP
    shape, places = op.out_types[0].shape, scattered(op)
    if places is None:
        return None

    def compute(x: Any, indices: Any, update: Any) -> Any:
        at, inside = places.of(indices)
        if inside is not None and not clips:
            kept = np.broadcast_to(inside, at.shape)
            at, update = at[kept], update[kept]
        out = x.flatten()
        write(out, at.reshape(-1), update.reshape(-1))
        return out.reshape(shape)

    return compute


def _put(out: Any, at: Any, update: Any) -> None:
    """Write numbers at places of a flat array; of several for one place, the last."""
    out[at] = update


def _scatter_add(op: Op) -> Compute | None:
    numbers, (operand, _, updates) = op.params["dimension_numbers"], op.in_types
    windows = numbers.update_window_dims
    # XLA adds in the order of the updates, those along windows last
    if operand.dtype not in REALS or list(windows) != [*range(updates.ndim)][updates.ndim - len(windows) :]:
        return None
    compute = scattering(op, np.add.at)
    if compute is None or operand.dtype not in FLOATS:
        return compute
    return lambda x, indices, update: _flushed(compute(_flushed(x), indices, _flushed(update)))


def sorting(op: Op, key: Compute) -> Compute | None:
    """Operands in the order of what ``key`` makes of the first; NaNs are last, and the two zeros are equal."""
    type, axis = op.in_types[0], op.params["dimension"]
    if op.params["num_keys"] != 1 or type.dtype not in REALS | {BOOL}:
        return None
    grid = np.ix_(*[np.arange(1 if i == axis else n) for i, n in enumerate(type.shape)])

    def compute(*xs: Any) -> Any:
        order = np.argsort(key(xs[0]), axis, "stable")
        place = (*grid[:axis], order, *grid[axis + 1 :])
        found = [x[place] for x in xs]
        return found if len(found) > 1 else found[0]

    return compute


def _sort(op: Op) -> Compute | None:
    return sorting(op, lambda x: _flushed(x) if x.dtype in FLOATS else x)


# -- the table -------------------------------------------------------------------------------------------------------

_MOVES: dict[str, Entry] = {
    "concatenate": _concatenate,
    "copy": lambda op: lambda x: x,
    "copy_p": lambda op: lambda x: x,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _rev,
    "scatter": lambda op: scattering(op, _put),
    "slice": _slice,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "stop_gradient": lambda op: lambda x: x,
    "transpose": _transpose,
    "unstack": _unstack,
}

_TABLE: dict[str, Entry] = _MOVES | {
    "abs": _exact(np.abs, REALS),
    "add": _arithmetic(np.add, REALS),
    "add_any": _arithmetic(np.add, REALS),
    "and": _exact(np.bitwise_and, INTEGERS | {BOOL}),
    "argmax": _place(np.argmax),
    "argmin": _place(np.argmin),
    "broadcast_in_dim": _broadcast,
    "ceil": _arithmetic(np.ceil, FLOATS),
    "convert_element_type": _convert,
    "div": _div,
    "eq": _arithmetic(np.equal, REALS | {BOOL}),
    "floor": _arithmetic(np.floor, FLOATS),
    "ge": _arithmetic(np.greater_equal, REALS | {BOOL}),
    "gt": _arithmetic(np.greater, REALS | {BOOL}),
    "imag": lambda op: np.imag,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "is_finite": lambda op: np.isfinite,
    "le": _arithmetic(np.less_equal, REALS | {BOOL}),
    "lt": _arithmetic(np.less, REALS | {BOOL}),
    "max": _arithmetic(_max, REALS),
    "min": _arithmetic(_min, REALS),
    "mul": _arithmetic(np.multiply, REALS),
    "ne": _arithmetic(np.not_equal, REALS | {BOOL}),
    "neg": _exact(np.negative, REALS),
    "not": _exact(np.invert, INTEGERS | {BOOL}),
    "or": _exact(np.bitwise_or, INTEGERS | {BOOL}),
    "real": lambda op: np.real,
    "reduce_and": _reduction(np.all, frozenset({BOOL})),
    "reduce_max": _reduction(np.max, INTEGERS),
    "reduce_min": _reduction(np.min, INTEGERS),
    "reduce_or": _reduction(np.any, frozenset({BOOL})),
    "reduce_sum": _reduce_sum,
    "rem": _exact(lambda x, y: np.fmod(x, _flushed(y)), FLOATS),
    "round": _round,
    "scatter-add": _scatter_add,
    "select_n": _select,
    "sign": _arithmetic(sign, REALS),
    "sort": _sort,
    "sqrt": _arithmetic(np.sqrt, FLOATS),
    "square": _arithmetic(np.square, REALS),
    "sub": _arithmetic(np.subtract, REALS),
    "xor": _exact(np.bitwise_xor, INTEGERS | {BOOL}),
}
