"""Writes to elements that share memory: those PyTorch refuses, those it warns of, and the results of the others.

NOTE [Elements that share a place]
Before a kernel writes, PyTorch checks whether elements of the written tensor share a memory location (by its test, an
axis of stride 0), and whether the tensor partly overlaps one that is read.  Kernels differ: most refuse, some warn,
some do not check; ``Writing.overlap`` says which.  An overlap that PyTorch does not detect (the windows of ``unfold``)
is written element by element: a location shared by two elements is written twice, and the second time its new value is
read.  The same holds if the tensor that is read has gaps (a tensor's own diagonal is added to it): an element that has
been written is read with its new value.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Geometry, Ints, element_positions, is_dense, overlaps
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import Routine, recorded
from fgrad.seam import Graph, evaluate

OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
PARTIAL = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)
_DEPRECATED = (
    "Use of {}_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This "
    "also applies to advanced indexing e.g. tensor[{}"
)

#: how many routines of sequential writes are kept
KEPT = 256


def check_overlap(tensor: Tensor, others: Sequence[Any]) -> None:
    """Raise PyTorch's error if elements to be written share memory, with one another or partly with those read."""
    check_repeated(tensor)
    for x in others:
        if isinstance(x, Tensor) and x._storage is tensor._storage:
            check_partial_overlap(tensor, x)


def unchecked(tensor: Tensor, others: Sequence[Any]) -> None:
    """No check: the kernel writes one value everywhere."""


def in_order(tensor: Tensor, others: Sequence[Any]) -> None:
    """No check: the kernel does not look, and writes element by element."""


def check_repeated(tensor: Tensor, others: Sequence[Any] = ()) -> None:
    """Raise PyTorch's error if elements to be written share memory with one another."""
    if _repeats(tensor):
        raise RuntimeError(OVERLAP)


def check_copied(tensor: Tensor, others: Sequence[Any]) -> None:
    """``check_overlap``, except that a tensor may be copied to itself, which does nothing."""
    source = others[0]
    if source._storage is not tensor._storage:
        check_repeated(tensor)
    elif source._geometry_of() != tensor._geometry_of():
        check_overlap(tensor, others)


def deprecated(function: str, example: str) -> Callable[[Tensor, Sequence[Any]], None]:
    """A check that only warns if elements to be written share memory, as the kernel does not read what it writes."""

    def check(tensor: Tensor, others: Sequence[Any]) -> None:
        if _repeats(tensor):
            warn(_DEPRECATED.format(function, example))

    return check


_warn_if_filled = deprecated("masked_fill", "mask] = scalar")


def check_apart(tensor: Tensor, other: Tensor) -> None:
    """Raise PyTorch's error if a tensor to be written shares any of its memory with one that is read."""
    if other._storage is tensor._storage:
        dense = _is_dense(tensor) and _is_dense(other)
        if tensor is other or (dense and _extent(tensor._geometry_of()) == _extent(other._geometry_of())):
            raise RuntimeError(PARTIAL)
        check_partial_overlap(tensor, other)


def check_all_apart(tensor: Tensor, others: Sequence[Any]) -> None:
    """Raise PyTorch's error if elements to be written share memory, with one another or with any that is read."""
    check_repeated(tensor)
    for x in others:
        if isinstance(x, Tensor):
            check_apart(tensor, x)


def check_filled(tensor: Tensor, mask: Any) -> None:
    """The check of ``masked_fill_``: it warns of elements that share memory, and refuses a mask in that memory."""
    _warn_if_filled(tensor, ())
    if mask._storage is tensor._storage:
        check_partial_overlap(tensor, mask)


def check_partial_overlap(tensor: Tensor, other: Tensor, reduced: bool = False) -> None:
    """Raise PyTorch's error if a tensor to be written shares part of its memory with one that is read.

    As in PyTorch, tensors with gaps pass (aten/src/ATen/MemoryOverlap.cpp).  With ``reduced`` the tensor may lack
    axes of length 1 that the other has.
    """
    a, b = tensor._geometry_of(), other._geometry_of()
    if tensor is other or 0 in a.sizes or 0 in b.sizes or not (_is_dense(tensor) and _is_dense(other)):
        return
    (start, end), (first, last) = _extent(a), _extent(b)
    same = start == first and end == last
    if (same and not _same_steps(a, b, reduced)) or (not same and start < last and first < end):
        raise RuntimeError(PARTIAL)


def _extent(dense: Geometry) -> tuple[int, int]:
    """The first byte and the one behind the last."""
    size = dense.dtype.itemsize
    return dense.offset * size, (dense.offset + math.prod(dense.sizes)) * size


def _same_steps(a: Geometry, b: Geometry, reduced: bool) -> bool:
    if not reduced:
        return a.strides == b.strides
    first, second = [[step for n, step in zip(g.sizes, g.strides, strict=True) if n != 1] for g in (a, b)]
    return first == second


def _repeats(tensor: Tensor) -> bool:
    geometry = tensor._geometry
    return geometry is not None and overlaps(geometry.sizes, geometry.strides)


def _is_dense(tensor: Tensor) -> bool:
    g = tensor._geometry_of()
    return is_dense(g.sizes, g.strides)


# -- element by element ----------------------------------------------------------------------------------------------


@lru_cache(KEPT)
def in_turns(graph: Graph, sizes: Ints, strides: Ints, aliases: tuple[int, ...]) -> Routine:
    """A kernel that writes its first operand, applied to elements that share memory: see the NOTE above.

    ``aliases`` are the operands that are the written tensor itself, the first among them.
    """
    turn, source = _turns(sizes, strides)

    def function(current: Any, *rest: Any) -> list[Any]:
        arrays = [current, *rest]
        for k in range(len(source)):
            computed = evaluate(graph, [current if i in aliases else x for i, x in enumerate(arrays)])[0]
            new = jnp.take(computed.reshape(-1), source[k].reshape(-1), axis=0).reshape(sizes)
            current = jnp.where(turn >= k, new, current)
        return [current]

    return Routine(recorded(function, graph.in_types))


@lru_cache(KEPT)
def in_sequence(graph: Graph, expanded: Graph, written: Geometry, read: tuple[Geometry | None, ...]) -> Routine:
    """A kernel that writes its first operand element by element while other operands overlap the same memory.

    ``read`` has the geometry of each other operand, expanded to the written shape as in the kernel ``expanded``, and
    None for one that does not overlap.
    """
    at = element_positions(written.sizes, written.strides, written.offset).reshape(-1)
    order = np.argsort(at)
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order))
    sources = {i: _written_before(g, at, order, turn) for i, g in enumerate(read) if g is not None}
    depth, rounds = np.zeros_like(turn), 0
    while True:
        deeper = np.max([np.where(before, depth[element] + 1, 0) for element, before in sources.values()], axis=0)
        if (deeper == depth).all():
            break
        depth, rounds = deeper, rounds + 1

    def function(current: Any, *rest: Any) -> list[Any]:
        result = current
        for _ in range(rounds + 1):
            operands = list(rest)
            for i, (element, before) in sources.items():
                new = jnp.take(result.reshape(-1), element, axis=0)
                old = jnp.broadcast_to(rest[i], written.sizes).reshape(-1)
                operands[i] = jnp.where(before, new, old).reshape(written.sizes)
            result = evaluate(expanded, [current, *operands])[0]
        return [result]

    return Routine(recorded(function, graph.in_types))


def _written_before(
    read: Geometry, at: np.ndarray, order: np.ndarray, turn: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each element the written element that it reads, and whether that has been written by then."""
    positions = element_positions(read.sizes, read.strides, read.offset).reshape(-1)
    element = order[np.minimum(np.searchsorted(at, positions, sorter=order), len(order) - 1)]
    return element, (at[element] == positions) & (turn[element] < turn)


def _turns(sizes: Ints, strides: Ints) -> tuple[np.ndarray, list[np.ndarray]]:
    """How many extra times each location is written; for each round, the element that writes a location."""
    at = element_positions(sizes, strides, 0).reshape(-1)
    order = np.argsort(at, kind="stable")
    _, first, group, count = np.unique(at[order], return_index=True, return_inverse=True, return_counts=True)
    of_place = np.empty_like(at)
    of_place[order] = group
    last = count[of_place] - 1
    turns = [order[first[of_place] + np.minimum(k, last)].reshape(sizes) for k in range(int(count.max()))]
    return last.reshape(sizes), turns
