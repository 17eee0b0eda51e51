"""Quickselect as in PyTorch, which decides which of several equal elements ``kthvalue`` returns.

A pass of Hoare's partition is vectorised: the positions at which one scan stops are paired with those of the other, and
pairs are exchanged until the scans meet.

Source: PyTorch: aten/src/ATen/native/SortingUtils.h, quick_select_template
"""

from typing import Any

from jax import lax, numpy as jnp

from fgrad.torch.ops.table.broadcasting import choose


def quick_selected(x: Any, k: int) -> Any:
    """The index in a vector of its ``k``-th smallest element; NaNs are last."""
    n = x.shape[0]
    positions = jnp.arange(n)

    def above(a: Any, b: Any) -> Any:
        return (jnp.isnan(a) & ~jnp.isnan(b)) | (a > b)

    def exchange(order: Any, i: Any, j: Any, condition: Any = True) -> Any:
        return order[choose(condition & (positions == i), j, choose(condition & (positions == j), i, positions))]

    def order_pair(order: Any, i: Any, j: Any) -> Any:
        return exchange(order, i, j, above(x[order[i]], x[order[j]]))

    def partition(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        start, end, order = state
        order = exchange(order, start + (end - start) // 2, start + 1)
        # the median of three is the pivot; the other two stop the scans
        order = order_pair(order_pair(order_pair(order, start + 1, end), start, end), start + 1, start)
        row = x[order]
        pivot = row[start]
        up = (positions >= start + 2) & (positions <= end) & ~above(pivot, row)
        down = (positions >= start + 1) & (positions < end) & ~above(row, pivot)
        ups = jnp.full(n, n).at[choose(up, jnp.cumsum(up) - 1, n)].set(positions, mode="drop")
        downs = jnp.full(n, -1).at[choose(down, jnp.sum(down) - jnp.cumsum(down), n)].set(positions, mode="drop")
        paired = ups <= downs
        pairs = jnp.sum(paired)
        source = positions.at[choose(paired, ups, n)].set(downs, mode="drop")
        order = order[source.at[choose(paired, downs, n)].set(ups, mode="drop")]
        # a scan also stops at the elements of the last exchange; an element paired with itself is not exchanged
        exchanges = jnp.sum(ups < downs)
        last = jnp.maximum(exchanges - 1, 0)
        i = choose(exchanges > 0, jnp.minimum(ups[pairs], downs[last]), ups[pairs])
        j = choose(exchanges > 0, jnp.maximum(downs[pairs], ups[last]), downs[pairs])
        order = exchange(order, start, j)
        return choose(j <= k, i, start), choose(j >= k, j - 1, end), order

    first = (jnp.zeros_like(positions[0]), jnp.full_like(positions[0], n - 1), positions)
    start, end, order = lax.while_loop(lambda state: state[1] > state[0] + 1, partition, first)
    has_two = end == start + 1
    return choose(has_two, order_pair(order, start, jnp.minimum(start + 1, n - 1)), order)[k]
