"""Which of several equal elements ``kthvalue`` names: the one at which PyTorch's quickselect ends.

A pass of Hoare's partition is done as a whole: the places at which the one scan stops are paired with those at which
the other does, and a pair changes places as long as the scans have not met.

Source: PyTorch: aten/src/ATen/native/SortingUtils.h, quick_select_template
"""

from typing import Any

from jax import lax, numpy as jnp


def quick_selected(x: Any, k: int) -> Any:
    """The place in a row of the element that is the ``k``-th of the sorted row; not-a-numbers are the last."""
    n = x.shape[0]
    at = jnp.arange(n)

    def above(one: Any, other: Any) -> Any:
        return (jnp.isnan(one) & ~jnp.isnan(other)) | (one > other)

    def exchanged(order: Any, i: Any, j: Any, when: Any = True) -> Any:
        return order[jnp.where(when & (at == i), j, jnp.where(when & (at == j), i, at))]

    def ordered(order: Any, i: Any, j: Any) -> Any:
        return exchanged(order, i, j, above(x[order[i]], x[order[j]]))

    def partitioned(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        start, end, order = state
        order = exchanged(order, start + (end - start) // 2, start + 1)
        # the median of three is the pivot, and the other two end the scans
        order = ordered(ordered(ordered(order, start + 1, end), start, end), start + 1, start)
        row = x[order]
        pivot = row[start]
        up = (at >= start + 2) & (at <= end) & ~above(pivot, row)
        down = (at >= start + 1) & (at < end) & ~above(row, pivot)
        ups = jnp.full(n, n).at[jnp.where(up, jnp.cumsum(up) - 1, n)].set(at, mode="drop")
        downs = jnp.full(n, -1).at[jnp.where(down, jnp.sum(down) - jnp.cumsum(down), n)].set(at, mode="drop")
        paired = ups <= downs
        pairs = jnp.sum(paired)
        source = at.at[jnp.where(paired, ups, n)].set(downs, mode="drop")
        order = order[source.at[jnp.where(paired, downs, n)].set(ups, mode="drop")]
        # a scan also stops at what the last exchange has put in its way; one place with itself is none
        exchanges = jnp.sum(ups < downs)
        last = jnp.maximum(exchanges - 1, 0)
        i = jnp.where(exchanges > 0, jnp.minimum(ups[pairs], downs[last]), ups[pairs])
        j = jnp.where(exchanges > 0, jnp.maximum(downs[pairs], ups[last]), downs[pairs])
        order = exchanged(order, start, j)
        return jnp.where(j <= k, i, start), jnp.where(j >= k, j - 1, end), order

    first = (jnp.zeros_like(at[0]), jnp.full_like(at[0], n - 1), at)
    start, end, order = lax.while_loop(lambda state: state[1] > state[0] + 1, partitioned, first)
    two = end == start + 1
    return jnp.where(two, ordered(order, start, jnp.minimum(start + 1, n - 1)), order)[k]
