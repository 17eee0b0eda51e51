"""Rules for the primitives that combine or move the values of the members along a mapped axis.

A rule is that of the map from all members' inputs to all members' outputs.  ``psum`` gives every member the
sum, so its transpose sums the members' cotangents: it is ``psum`` again.  (So it is in JAX under ``vmap`` and
``pmap``, where each member has a loss of its own.  Under ``shard_map``, JAX tells with ``pvary`` and
``psum_invariant`` apart what is one value for all members, and those two are each other's transpose.)
"""

from typing import Any

import numpy as np
from jax import lax

from fgrad.jaxcore import primitive
from fgrad.rules.kinds import General, Linear, Undefined, Zero, define

# ---- sums and extrema


def _psum(ct: Any, x: Any, *, axes: Any, axis_index_groups: Any = None, **_: Any) -> Any:
    summed = primitive("psum").bind(ct, axes=_named(axes), axis_index_groups=axis_index_groups)
    return (_spread(summed, x, axes),)


def _named(axes: Any) -> tuple[Any, ...]:
    return tuple(axis for axis in axes if not isinstance(axis, int))


def _spread(out: Any, x: Any, axes: Any) -> Any:
    """Repeats a result along those of ``axes`` that are numbers, i.e. axes of ``x`` itself."""
    kept = tuple(d for d in range(len(x.shape)) if d not in axes)
    return lax.broadcast_in_dim(out, x.shape, kept)


define("psum", Linear(_psum))


def _pextremum(ct: Any, out: Any, x: Any, *, axes: Any, axis_index_groups: Any = None, **_: Any) -> Any:
    # Those that attain the extremum share the cotangent equally, as with all maxima.  (JAX has no rule.)
    attained = lax.eq(x, _spread(out, x, axes))
    count = primitive("psum").bind(
        lax.convert_element_type(attained, ct.dtype), axes=axes, axis_index_groups=axis_index_groups
    )
    (total,) = _psum(ct, x, axes=axes, axis_index_groups=axis_index_groups)
    share = lax.div(total, _spread(lax.max(count, np.ones((), ct.dtype)), x, axes))
    return (lax.select(attained, share, lax.full(x.shape, 0, ct.dtype)),)


define("pmax pmin", General(vjp=_pextremum))

define("psum_invariant", Linear(lambda ct, x, *, axes, **_: (lax.pcast(ct, axes, to="varying"),)))
define("pvary", Linear(lambda ct, x, *, axes, **_: (lax.psum(ct, axes),)))


# ---- gathering, scattering, exchange


def _all_gather(
    ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, axis_index_groups: Any, tiled: bool, **_: Any
) -> Any:
    groups = axis_index_groups
    return (
        lax.psum_scatter(
            ct, axis_name, scatter_dimension=all_gather_dimension, axis_index_groups=groups, tiled=tiled
        ),
    )  # fmt: skip


def _reduce_scatter(
    ct: Any, x: Any, *, scatter_dimension: int, axis_name: Any, axis_index_groups: Any, tiled: bool, **_: Any
) -> Any:
    return (lax.all_gather(ct, axis_name, axis=scatter_dimension, axis_index_groups=axis_index_groups, tiled=tiled),)


define("all_gather", Linear(_all_gather))
define("reduce_scatter", Linear(_reduce_scatter))


def _all_gather_invariant(
    ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, axis_size: int, tiled: bool, **_: Any
) -> Any:
    # All members hold the same cotangent of the same result: each takes its own part.
    size = ct.shape[all_gather_dimension] // axis_size
    start = lax.mul(lax.axis_index(axis_name), np.int32(size))
    part = lax.dynamic_slice_in_dim(ct, start, size, all_gather_dimension)
    return (lax.reshape(part, x.shape),)


define("all_gather_invariant", Linear(_all_gather_invariant))


def _all_to_all(
    ct: Any, x: Any, *, axis_name: Any, split_axis: int, concat_axis: int, axis_index_groups: Any, **_: Any
) -> Any:
    # lax has squeezed its input already where it is not `tiled`; the primitive itself always is.
    return (lax.all_to_all(ct, axis_name, concat_axis, split_axis, axis_index_groups=axis_index_groups, tiled=True),)


define("all_to_all", Linear(_all_to_all))


def _ragged_all_to_all(
    ct: Any, x: Any, out: Any, starts: Any, sizes: Any, out_starts: Any, out_sizes: Any,
    *, axis_name: Any, axis_index_groups: Any, **_: Any,
) -> Any:  # fmt: skip
    # `starts` and `out_starts` belong to what a member sends; it now sends back what it has received.
    starts = lax.all_to_all(starts, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)
    out_starts = lax.all_to_all(out_starts, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)
    zeros = lax.full(x.shape, 0, ct.dtype)
    returned = lax.ragged_all_to_all(
        ct, zeros, out_starts, out_sizes, starts, sizes, axis_name=axis_name, axis_index_groups=axis_index_groups
    )
    # The rows of `out` that were overwritten: those at which more pieces have begun than have ended.
    dims = lax.ScatterDimensionNumbers(
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    changes = lax.full(ct.shape[:1], 0, "int32")
    for edges, change in ((out_starts, 1), (lax.add(out_starts, out_sizes), -1)):
        column = lax.reshape(edges, (edges.shape[0], 1))
        changes = lax.scatter_add(changes, column, lax.full(edges.shape, change, "int32"), dims, mode="drop")
    overwritten = lax.broadcast_in_dim(lax.gt(lax.cumsum(changes), np.int32(0)), ct.shape, (0,))
    return returned, lax.select(overwritten, lax.full(ct.shape, 0, ct.dtype), ct), None, None, None, None


define("ragged_all_to_all", Linear(_ragged_all_to_all, args=(0, 1)))


def _ppermute(ct: Any, x: Any, *, axis_name: Any, perm: Any, **_: Any) -> Any:
    return (lax.ppermute(ct, axis_name, [(to, source) for source, to in perm]),)


define("ppermute", Linear(_ppermute))


def _pbroadcast(ct: Any, x: Any, *dynamic: Any, axis_name: Any, source: Any = None, **_: Any) -> Any:
    # JAX has two primitives: the source is a parameter of one, and an input of the other.
    source = dynamic[0] if dynamic else np.int32(source)
    is_source = lax.broadcast_in_dim(lax.eq(lax.axis_index(axis_name), source), ct.shape, ())
    summed = lax.select(is_source, lax.psum(ct, axis_name), lax.full(ct.shape, 0, ct.dtype))
    return summed, *(None for _ in dynamic)


define("pbroadcast", Linear(_pbroadcast))
define("pbroadcast_dynamic", Linear(_pbroadcast, args=(0,)))

define("axis_index", Zero("an integer"))


# ---- forms that are seen in shard_map only

define(
    "unreduced_psum unreduced_pmax unreduced_pmin preduced vary_unreduced_cast vary_unreduced_cast_p "
    "reduced_vary_cast reduced_vary_cast_p "
    "all_gather_reduced unreduced_reduce_scatter",
    Undefined("fgrad does not follow values that are unreduced along a mesh axis; lax.psum them first"),
)
define(
    "psum_invariant_start psum_start psum_done all_gather_start all_gather_reduced_start all_gather_done "
    "all_to_all_start all_to_all_done ppermute_start ppermute_done reduce_scatter_start reduce_scatter_done "
    "unreduced_psum_start unreduced_reduce_scatter_start pbroadcast_start pbroadcast_done psend precv",
    Undefined("a collective split into its start and its end has no derivative (nor in JAX); use the whole one"),
)
