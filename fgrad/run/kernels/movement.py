"""Kernels that move elements: views, joins, windows, gathers, scatters and sorts."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter, methodcaller, setitem
from typing import Any

import jax
import numpy as np
from attrs import evolve

from fgrad.graph.op import Op
from fgrad.run.flat_indices import gather_windows, gathered_axis, scatter_windows
from fgrad.run.kernels.kernel import (
    ARITHMETIC,
    BOOL,
    FLOATS,
    FREE,
    FUNCTION,
    INTEGERS,
    MOVED,
    NUMBERS,
    ORDERED,
    REALS,
    TABLE,
    Compute,
    Entry,
    Kernel,
    Moving,
    Places,
    flushed,
    flushing,
    same,
)


def _moving(compute_of: Callable[[Op], Compute | None], excess: float = MOVED) -> Entry:
    """An operation that moves elements and keeps all their bits."""

    def entry(op: Op) -> Kernel | None:
        compute = compute_of(op)
        return None if compute is None else same(compute, excess)

    return Moving(entry)


def _copy(op: Op) -> Compute:
    return lambda x: x[...]


def _with(function: Compute, param: str) -> Entry:
    """A function of an array and one parameter of the operation."""
    return _moving(lambda op: lambda x, value=op.params[param]: function(x, value))


def _of_all(function: Compute, param: str) -> Entry:
    """A function of all arrays and one parameter of the operation."""
    return _moving(lambda op: lambda *xs, value=op.params[param]: function(xs, value))


def _bitcast(op: Op) -> Compute | None:
    old, new = op.in_types[0].dtype, op.out_types[0].dtype
    return methodcaller("view", new) if old.itemsize == new.itemsize and BOOL not in (old, new) else None


def _reshape(op: Op) -> Compute | None:
    return _squeeze(op) if op.params["dimensions"] is None else None


def _squeeze(op: Op) -> Compute:
    shape = op.out_types[0].shape
    return methodcaller("reshape", shape)  # takes a third of the time of ``np.reshape``


def _broadcast(op: Op) -> Kernel | None:
    if len(op.in_types) != 1:
        return None
    # the operand's axes, aligned with those of the result
    shape = [1] * op.out_types[0].ndim
    for axis, n in zip(op.params["broadcast_dimensions"], op.in_types[0].shape, strict=True):
        shape[axis] = n
    compute = methodcaller("reshape", shape)
    return Kernel(compute, compute, FREE, shape=tuple(shape))


def _slice(op: Op) -> Compute:
    params = op.params
    strides = params["strides"] or (1,) * len(params["start_indices"])
    return itemgetter(tuple(map(slice, params["start_indices"], params["limit_indices"], strides)))


def _reverse(op: Op) -> Compute:
    every, backwards = slice(None), slice(None, None, -1)
    axes = range(op.in_types[0].ndim)
    return itemgetter((..., *[backwards if axis in op.params["dimensions"] else every for axis in axes]))


def _split(op: Op) -> Compute:
    sizes, before = op.params["sizes"], (slice(None),) * op.params["axis"]
    if len(sizes) == 1:
        return lambda x: x[...]
    slices = [(*before, slice(end - size, end)) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    return lambda x: [x[index] for index in slices]


def _unstack(op: Op) -> Compute:
    axis = op.params["axis"]
    if op.in_types[0].shape[axis] == 1:
        return lambda x: x.squeeze(axis)
    before = (slice(None),) * axis
    # with an ellipsis even a single number is an array
    indices = [(*before, i, ...) for i in range(op.in_types[0].shape[axis])]
    return lambda x: [x[index] for index in indices]


def padding(shape: Sequence[int], config: Sequence[tuple[int, int, int]]) -> Compute:
    """``lax.pad`` of arrays of this shape: a function of the array and the padding value."""
    padded, source, target = [], [], []
    for n, (low, high, gap) in zip(shape, config, strict=True):
        step = gap + 1
        size = low + max((n - 1) * step + 1, 0) + high
        # negative padding removes elements
        first = -(min(low, 0) // step)
        last = max(first, min(n, -((low - size) // step)))
        padded.append(size)
        source.append(slice(first, last))
        start = low + first * step
        target.append(slice(start, start + (last - first) * step, step))
    read, written = tuple(source), tuple(target)

    def compute(x: Any, padding_value: Any) -> Any:
        out = np.full(padded, padding_value, x.dtype)
        out[written] = x[read]
        return out

    return compute


def _pad(op: Op) -> Compute:
    return padding(op.in_types[0].shape, op.params["padding_config"])


def _platform(op: Op) -> Compute | None:
    """The position of the list of platforms with the CPU; a list of None has all that no other list has."""
    lists = op.params["platforms"]
    positions = [i for i, names in enumerate(lists) if names is not None and "cpu" in names]
    positions += [i for i, names in enumerate(lists) if names is None]
    return (lambda: np.asarray(positions[0], np.int32)) if positions else None


def _iota(op: Op) -> Kernel | None:
    type, axis = op.out_types[0], op.params["dimension"]
    if op.in_types or type.dtype not in REALS:
        return None
    n = type.shape[axis]
    aligned = [n if i == axis else 1 for i in range(type.ndim)]
    return same(lambda: np.broadcast_to(np.arange(n, dtype=type.dtype).reshape(aligned), type.shape), FREE)


def _window(sizes: Sequence[int], shape: Sequence[int]) -> Callable[..., tuple[slice, ...]]:
    """From start indices to the slices of a window, moved inside an array of this shape as JAX does."""
    whole = tuple([slice(0, n) for n in shape])
    movable = [(axis, size, n - size) for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)) if size != n]

    def window(starts: Sequence[Any]) -> tuple[slice, ...]:
        slices = [*whole]
        for axis, size, last in movable:
            first = min(max(int(starts[axis]), 0), last)
            slices[axis] = slice(first, first + size)
        return tuple(slices)

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


#: the modes of a gather for which JAX has a program; ``ONE_HOT`` is one of indexing alone
_GATHERED = tuple(getattr(jax.lax.GatherScatterMode, name) for name in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"))


def _gather(op: Op) -> Compute | None:
    mode, fill = op.params["mode"], op.params["fill_value"]
    fills = mode == jax.lax.GatherScatterMode.FILL_OR_DROP
    dtype, windows = op.out_types[0].dtype, gather_windows(op)
    if windows is None or mode not in _GATHERED:
        return None
    if not fills and (axis := gathered_axis(op)) is not None:
        # also indices that are promised to lie inside are clamped by XLA
        return lambda x, indices: x.take(indices[..., 0], axis, mode="clip")
    if fills and fill is None:
        fill = _fill_value(dtype)

    def compute(x: Any, indices: Any) -> Any:
        positions, inside = windows.positions(indices)
        out = x.reshape(-1).take(positions)
        return np.where(inside, out, fill).astype(dtype) if fills and inside is not None else out

    return compute


def _fill_value(dtype: np.dtype) -> Any:
    if dtype in INTEGERS:
        return np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min
    return dtype == BOOL if dtype == BOOL else np.nan


def _places(op: Op, write: Callable[[Any, Any, Any], None]) -> Places | None:
    """The places of a scatter by ``write``, a function of a flat array, positions in it, and values."""
    clips = op.params["mode"] == jax.lax.GatherScatterMode.CLIP
    windows = scatter_windows(op)
    if windows is None:
        return None

    def of(indices: Any, update: Any) -> tuple[Any, Any]:
        positions, inside = windows.positions(indices)
        if inside is not None and not clips:
            kept = np.broadcast_to(inside, positions.shape)
            positions, update = positions[kept], update[kept]
        return positions.reshape(-1), update.reshape(-1)

    return Places(of, write)


def _on_copies(places: Places, shape: Sequence[int]) -> Compute:
    """A scatter into a copy of its operand."""

    def compute(x: Any, indices: Any, update: Any) -> Any:
        out = x.flatten()
        places.write(out, *places.of(indices, update))
        return out.reshape(shape)

    return compute


def _scatter(op: Op) -> Kernel | None:
    # with a function it is ``x.at[i].apply(f)``, which has no updates
    places = _places(op, setitem) if op.params.get("update_jaxpr") is None else None
    return None if places is None else evolve(same(_on_copies(places, op.out_types[0].shape), MOVED), places=places)


def _combining(ufunc: np.ufunc, dtypes: frozenset[np.dtype]) -> Entry:
    """A scatter that combines each update with what is there."""

    def entry(op: Op) -> Kernel | None:
        numbers, (operand, _, updates) = op.params["dimension_numbers"], op.in_types
        places = _places(op, ufunc.at) if operand.dtype in dtypes else None
        if places is None:
            return None
        compute = _on_copies(places, op.out_types[0].shape)
        # XLA combines in the order of the updates, those along windows last
        windows = numbers.update_window_dims
        in_order = list(windows) == [*range(updates.ndim)][updates.ndim - len(windows) :]
        as_xla = flushing(compute) if operand.dtype in FLOATS else compute
        exact = operand.dtype in INTEGERS or (in_order and operand.dtype in FLOATS)
        return Kernel(compute, as_xla, FUNCTION, exact=exact, places=places)

    return entry


def _sort(op: Op) -> Kernel | None:
    if op.params["num_keys"] != 1 or op.in_types[0].dtype not in ORDERED:
        return None
    return Kernel(_sorting(op, lambda x: x), _sorting(op, flushed), ARITHMETIC)


def _sorting(op: Op, key: Compute) -> Compute:
    """Sort all operands by ``key`` of the first; NaNs are last, and the two zeros are equal."""
    axis = op.params["dimension"]
    grid = np.ix_(*[np.arange(1 if i == axis else n) for i, n in enumerate(op.in_types[0].shape)])

    def compute(*xs: Any) -> Any:
        order = np.argsort(key(xs[0]), axis, "stable")
        index = (*grid[:axis], order, *grid[axis + 1 :])
        outs = [x[index] for x in xs]
        return outs if len(outs) > 1 else outs[0]

    return compute


MOVEMENT: dict[str, Entry] = {
    "bitcast_convert_type": _moving(_bitcast, FREE),
    "broadcast_in_dim": Moving(_broadcast),
    "concatenate": _of_all(np.concatenate, "dimension"),
    "copy": _moving(_copy),
    "copy_p": _moving(_copy),
    "dynamic_slice": _moving(_dynamic_slice),
    "dynamic_update_slice": _moving(_dynamic_update_slice),
    "gather": _moving(_gather),
    "imag": _moving(lambda op: np.imag, FREE),
    "iota": _iota,
    "pad": _moving(_pad),
    "platform_index": _moving(_platform, FREE),
    "real": _moving(lambda op: np.real, FREE),
    "reshape": _moving(_reshape, FREE),
    "rev": _moving(_reverse),
    "scatter": Moving(_scatter),
    "scatter-add": _combining(np.add, NUMBERS),
    "scatter-max": _combining(np.maximum, REALS),
    "scatter-min": _combining(np.minimum, REALS),
    "scatter-mul": _combining(np.multiply, NUMBERS),
    "scatter-sub": _combining(np.subtract, NUMBERS),
    "slice": _moving(_slice, FREE),
    "sort": _sort,
    "split": _moving(_split, FREE),
    "squeeze": _moving(_squeeze, FREE),
    "stack": _of_all(np.stack, "axis"),
    "stop_gradient": _moving(_copy),
    "tile": _with(np.tile, "reps"),
    "transpose": _moving(lambda op: methodcaller("transpose", op.params["permutation"]), FREE),
    "unstack": _moving(_unstack, FREE),
}
TABLE.update(MOVEMENT)
