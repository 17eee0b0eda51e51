"""Rules for ``sort``, ``top_k`` and ``approx_top_k``: permutations and selections of entries.

The derivative moves tangents and cotangents like the values; the order itself has no derivative.
"""

from typing import Any

from jax import lax

from fgrad.rules.arithmetic import zeros
from fgrad.rules.kinds import General, define


def _sort(cts: Any, outs: Any, *ins: Any, dimension: int, is_stable: bool, num_keys: int, **_: Any) -> Any:
    # Sorting the positions along with the keys gives the permutation; sorting by it puts the cotangents back.
    positions = lax.broadcasted_iota("int32", ins[0].shape, dimension)
    order = lax.sort((*ins[:num_keys], positions), dimension, is_stable, num_keys)[-1]
    live = [i for i, ct in enumerate(cts) if ct is not None]
    restored = lax.sort((order, *(cts[i] for i in live)), dimension, is_stable=False, num_keys=1)[1:]
    result: list[Any] = [None] * len(ins)
    for i, ct in zip(live, restored, strict=True):
        result[i] = ct
    return tuple(result)


define("sort", General(vjp=_sort))


def _put_back(ct: Any, chosen: Any, x: Any, axis: int) -> Any:
    """Entries of ``ct`` at the positions ``chosen`` along the axis of an array like ``x``, zero elsewhere."""
    others = tuple(d for d in range(x.ndim) if d != axis)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        operand_batching_dims=others,
        scatter_indices_batching_dims=others,
    )
    return lax.scatter_add(
        zeros(x), lax.expand_dims(chosen, (x.ndim,)), ct, numbers, unique_indices=True,
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )  # fmt: skip


def _top_k(cts: Any, outs: Any, x: Any, *, axis: int = -1, **_: Any) -> Any:
    return (_put_back(cts[0], outs[1], x, axis % x.ndim),)


define("top_k", General(vjp=_top_k))


def _approx_top_k(cts: Any, outs: Any, x: Any, *, reduction_dimension: int, **_: Any) -> Any:
    return (_put_back(cts[0], outs[1], x, reduction_dimension % x.ndim),)


define("approx_top_k", General(vjp=_approx_top_k))
