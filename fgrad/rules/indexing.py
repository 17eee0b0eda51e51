"""Rules for reading and writing at computed indices: dynamic slices, gather, and the scatters.

Reading is linear, and its transpose adds to zeros at the same indices; writing is the reverse.  Both treat an
index that is out of bounds alike (dropped or clamped, by ``mode``).  Indices have no derivative.
"""

from math import prod
from typing import Any

import numpy as np
from jax import lax

from fgrad.rules.arithmetic import filled, zeros
from fgrad.rules.kinds import General, Linear, Undefined, define

# ---- one window, with clamped start indices

# The primitives are bound directly: lax.dynamic_slice would again count negative starts from the end.


def _dynamic_slice(ct: Any, x: Any, *starts: Any, **_: Any) -> Any:
    return lax.dynamic_update_slice_p.bind(zeros(x), ct, *starts), *(None for _ in starts)


define("dynamic_slice", Linear(_dynamic_slice, args=(0,)))


def _dynamic_update_slice(ct: Any, x: Any, update: Any, *starts: Any, **_: Any) -> Any:
    outside = lax.dynamic_update_slice_p.bind(ct, zeros(update), *starts)
    inside = lax.dynamic_slice_p.bind(ct, *starts, slice_sizes=update.shape)
    return outside, inside, *(None for _ in starts)


define("dynamic_update_slice", Linear(_dynamic_update_slice, args=(0, 1)))


# ---- many windows: gather


def _gather(ct: Any, out: Any, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, **params: Any) -> Any:
    dims = lax.ScatterDimensionNumbers(
        update_window_dims=dimension_numbers.offset_dims,
        inserted_window_dims=dimension_numbers.collapsed_slice_dims,
        scatter_dims_to_operand_dims=dimension_numbers.start_index_map,
        operand_batching_dims=dimension_numbers.operand_batching_dims,
        scatter_indices_batching_dims=dimension_numbers.start_indices_batching_dims,
    )
    return lax.scatter_add(zeros(x), indices, ct, dims, **_mode_params(**params)), None


def _mode_params(*, mode: Any, indices_are_sorted: bool, unique_indices: bool, **_: Any) -> dict[str, Any]:
    return {"mode": mode, "indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}


# Not Linear: an index out of bounds reads `fill_value`, which need not be zero, although its tangent is.
define("gather", General(vjp=_gather))


# ---- many windows: the scatters


def _at(x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    """The elements of ``x`` at the indices where a scatter writes ``updates``; zero where it drops them."""
    dims = lax.GatherDimensionNumbers(
        offset_dims=dimension_numbers.update_window_dims,
        collapsed_slice_dims=dimension_numbers.inserted_window_dims,
        start_index_map=dimension_numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=dimension_numbers.operand_batching_dims,
        start_indices_batching_dims=dimension_numbers.scatter_indices_batching_dims,
    )
    if 0 in x.shape:
        # Everything is out of bounds, and gather takes no window of an empty array.
        return lax.full(updates.shape, 0, x.dtype)
    window = iter(updates.shape[d] for d in dimension_numbers.update_window_dims)
    single = {*dimension_numbers.inserted_window_dims, *dimension_numbers.operand_batching_dims}
    sizes = tuple(1 if d in single else next(window) for d in range(len(x.shape)))
    return lax.gather(x, indices, dims, sizes, fill_value=0, **_mode_params(**params))


def _scatter_add(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return ct, None, _at(ct, indices, updates, **params)


def _scatter_sub(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return ct, None, lax.neg(_at(ct, indices, updates, **params))


define("scatter-add", Linear(_scatter_add, args=(0, 2)))
define("scatter-sub", Linear(_scatter_sub, args=(0, 2)))


def _scatter(ct: Any, out: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    if params["update_jaxpr"] is not None:
        raise NotImplementedError(
            "lax.scatter_apply, that is x.at[i].apply(f), has no derivative (nor has it one in JAX). "
            "Write x.at[i].set(f(x[i])) instead."
        )
    dims, mode_params = params["dimension_numbers"], _mode_params(**params)
    # fgrad.torch says that indices are unique where each of several updates is to get the cotangent, as in PyTorch;
    # in parallel, their sum, which is the transpose, then needs to know that they may not be
    read = _at(ct, indices, updates, **{**params, "unique_indices": False})
    if mode_params["unique_indices"]:
        return lax.scatter(ct, indices, zeros(updates), dims, **mode_params), None, read
    # Of several updates of an element the last one stays, and only it gets the cotangent.  Scattering the
    # numbers 1, 2, ... of the updates in the same way tells which one that is (as in JAX).
    windows = tuple(1 if d in dims.update_window_dims else size for d, size in enumerate(updates.shape))
    numbers = lax.add(lax.reshape(lax.iota("uint32", prod(windows)), windows), np.uint32(1))
    numbers = lax.broadcast_in_dim(numbers, updates.shape, tuple(range(len(windows))))
    last = lax.scatter(filled(x, 0, "uint32"), indices, numbers, dims, **mode_params)
    untouched = lax.select(lax.eq(last, np.uint32(0)), ct, zeros(x))
    stayed = lax.eq(numbers, _at(last, indices, updates, **params))
    return untouched, None, lax.select(stayed, read, zeros(updates))


# Not Linear because of scatter_apply, and because forward mode must use the updates that stayed.
define("scatter", General(vjp=_scatter))


def _scatter_mul(ct: Any, out: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    dims, mode_params = params["dimension_numbers"], _mode_params(**params)
    factor = lax.scatter_mul(filled(x, 1), indices, updates, dims, **mode_params)
    slope = _at(lax.mul(ct, x), indices, updates, **params)
    if not mode_params["unique_indices"]:
        slope = lax.mul(slope, _product_of_others(x, indices, updates, **params))
    return lax.mul(ct, factor), None, slope


def _product_of_others(x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    """For each update, the product of the other updates of its element.

    Without division, so that zeros do no harm and derivatives of any order are right: the updates are sorted
    by target, and each gets the product of those before it times that of those after it.
    """
    flat_indices = lax.add(lax.reshape(lax.iota("int32", prod(x.shape)), x.shape), np.int32(1))
    target = lax.reshape(_at(flat_indices, indices, updates, **params), (prod(updates.shape),))
    count = lax.iota("int32", target.size)
    target, order = lax.sort((target, count), num_keys=1)
    _, unsort = lax.sort((order, count), num_keys=1)
    # Target 0 is out of bounds: those updates multiply nothing.
    value = lax.select(
        lax.eq(target, np.int32(0)), _ones(target, x), _take(lax.reshape(updates, (target.size,)), order)
    )
    others = lax.mul(_product_before(target, value, False), _product_before(target, value, True))
    return lax.reshape(_take(others, unsort), updates.shape)


def _product_before(target: Any, value: Any, reverse: bool) -> Any:
    """The product of the values before each one (after it, if ``reverse``) that have the same target."""
    shift = ((-1, 1, 0),) if reverse else ((1, -1, 0),)
    neighbour = lax.pad(target, np.int32(-1), shift)
    value = lax.pad(value, np.ones((), value.dtype), shift)
    starts = lax.ne(target, neighbour)
    value = lax.select(starts, _ones(target, value), value)

    def combine(left: Any, right: Any) -> Any:
        return lax.bitwise_or(left[0], right[0]), lax.select(right[0], right[1], lax.mul(left[1], right[1]))

    return lax.associative_scan(combine, (starts, value), reverse=reverse)[1]


def _ones(shaped: Any, typed: Any) -> Any:
    return lax.full(shaped.shape, 1, typed.dtype)


def _take(values: Any, permutation: Any) -> Any:
    dims = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    column = lax.reshape(permutation, (permutation.size, 1))
    return lax.gather(values, column, dims, (1,), mode="promise_in_bounds", unique_indices=True)


define("scatter-mul", General(vjp=_scatter_mul))


def _scatter_extremum(ct: Any, out: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    # Those that attain the extremum share the cotangent equally, as in all maxima.
    dims, mode_params = params["dimension_numbers"], _mode_params(**params)
    attained = lax.eq(updates, _at(out, indices, updates, **params))
    kept = lax.eq(x, out)
    kept_count, attained_count = [lax.convert_element_type(each, "int32") for each in (kept, attained)]
    count = lax.scatter_add(kept_count, indices, attained_count, dims, **mode_params)
    # None attains an extremum that is nan.
    share = lax.div(ct, lax.convert_element_type(lax.max(count, np.int32(1)), ct.dtype))
    read = _at(share, indices, updates, **params)
    return lax.select(kept, share, zeros(x)), None, lax.select(attained, read, zeros(updates))


define("scatter-min scatter-max", General(vjp=_scatter_extremum))


# ---- references

define(
    "get swap addupdate new_ref empty_ref freeze free_ref accum_grad_in_ref run_state pin unpin create_linear",
    Undefined(
        "this reads or writes memory outside the graph. Create the reference (jax.new_ref) inside the differentiated "
        "function, or pass the array itself through it (x = x.at[i].set(v))"
    ),
)
