"""Repeats in a graph: runs of equal blocks of nodes, as Python loops leave behind.

NOTE [Repeated blocks]
A Python loop unrolls into the same block of nodes over and over.  Blocks are equal if they have the same operations on
values of the same types, and read each other's values in the same way; what they read from outside (a layer's weights,
the state from the block before) may be any value.  The start of a slice does not count either, since ``xs[t]`` differs
in every iteration.

The search works on tokens, one per node.  A run of blocks of period p is where token i equals token i + p at least p
times in a row.  Candidates come from words of 1, 2, 4, 8, ... tokens: the distance from a word to the next equal one is
a possible period.  Where a block starts follows from the data flow: a value that is read in one block and has no
counterpart in the next must come from before the block.
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from attrs import frozen

from fgrad.graph.graph import Graph
from fgrad.graph.op import Op
from fgrad.graph.source import Source

#: the fewest nodes that must be saved for a repeat to count
LEAST_SAVED = 4
#: parameters that only say where values are read or written
_POSITIONS: dict[str, tuple[str, ...]] = {"slice": ("start_indices", "limit_indices"), "pad": ("padding_config",)}


@frozen
class Repeat:
    """``count`` consecutive equal blocks of ``length`` nodes each, from the node at position ``first``.

    ``exact`` is False if their slices start at different positions.  ``inner`` are repeats within the first block, with
    positions in the graph.
    """

    first: int
    length: int
    count: int
    exact: bool = True
    inner: tuple["Repeat", ...] = ()

    @property
    def stop(self) -> int:
        """The position after the last node."""
        return self.first + self.length * self.count

    @property
    def saved(self) -> int:
        """How many nodes are saved by showing the block once."""
        return self.length * (self.count - 1)


def repeats(graph: Graph) -> tuple[Repeat, ...]:
    """The blocks of nodes that repeat, in order; they do not overlap.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> def f(x, ws):
    ...     for w in ws:
    ...         x = jnp.tanh(x @ w)
    ...     return x
    >>> w = jnp.zeros((3, 3))
    >>> repeats(from_jaxpr(jax.make_jaxpr(f)(w, [w] * 4)))
    (Repeat(first=0, length=2, count=4, exact=True, inner=()),)
    """
    tokens = _numbered([token(node.op) for node in graph.nodes])
    return tuple(_within(graph, tokens, _producers(graph), 0, len(tokens)))


def token(op: Op) -> Hashable:
    """An operation but for the positions of slices; equal for corresponding operations of equal blocks."""
    positions = _POSITIONS.get(op.name)
    if positions is None:
        return op.key
    kept = tuple([repr(value) for name, value in sorted(op.params.items()) if name not in positions])
    return (op.name, kept, op.in_types, op.out_types)


def _numbered(values: Sequence[Hashable]) -> np.ndarray:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _producers(graph: Graph) -> list[int]:
    """For each value, the position of the node that produces it; negative for inputs and constants."""
    first = len(graph.in_types) + len(graph.consts)
    producers = list(range(-first, 0))
    for i, node in enumerate(graph.nodes):
        producers += [i] * len(node.op.out_types)
    return producers


def _within(graph: Graph, tokens: np.ndarray, producers: list[int], start: int, stop: int) -> list[Repeat]:
    """The repeats among the nodes from ``start`` to ``stop``."""
    runs = sorted(_runs(tokens[start:stop]), key=lambda run: (-(run[2] + run[1]), run[1]))
    taken = np.zeros(stop - start, bool)
    kept: list[Repeat] = []
    for run_start, period, matched in runs:
        if taken[run_start : run_start + period + matched].all():
            continue
        for first, count in _blocks(graph, producers, start + run_start, period, matched):
            nodes = slice(first - start, first - start + period * count)
            if period * (count - 1) < LEAST_SAVED or taken[nodes].any():
                continue
            taken[nodes] = True
            kept.append(_repeat(graph, tokens, producers, first, period, count))
    return sorted(kept, key=lambda repeat: repeat.first)


def _repeat(graph: Graph, tokens: np.ndarray, producers: list[int], first: int, period: int, count: int) -> Repeat:
    nodes = graph.nodes[first : first + period * count]
    exact = all(a.op.key == b.op.key for a, b in zip(nodes, nodes[period:], strict=False))
    inner = tuple(_within(graph, tokens, producers, first, first + period)) if period > LEAST_SAVED else ()
    return Repeat(first, period, count, exact, inner)


def _runs(tokens: np.ndarray) -> set[tuple[int, int, int]]:
    """Runs ``(start, period, matched)``, in which ``matched`` tokens equal those one period later."""
    n = len(tokens)
    runs: set[tuple[int, int, int]] = set()
    words, size = tokens, 1
    while len(words) > 1:
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        same = ranked[1:] == ranked[:-1]
        if not same.any():
            break
        gaps = np.zeros(len(words), np.int64)
        gaps[order[:-1]] = np.where(same, order[1:] - order[:-1], 0)
        edges = np.flatnonzero(np.diff(gaps)) + 1
        starts = np.concatenate([[0], edges])
        lengths = np.diff(np.concatenate([starts, [len(gaps)]]))
        periods = gaps[starts]
        full = (periods > 0) & (lengths + size - 1 >= periods)
        for start, period, matched in zip(starts[full], periods[full], lengths[full] + size - 1, strict=True):
            runs.add(_extended(tokens, int(start), int(period), int(matched)))
        if 2 * size > n:
            break
        pairs = words[: n - 2 * size + 1] * np.int64(n + 1) + words[size : n - size + 1]
        words, size = np.unique(pairs, return_inverse=True)[1], 2 * size
    return runs


def _extended(tokens: np.ndarray, start: int, period: int, matched: int) -> tuple[int, int, int]:
    """The same run, extended on both sides."""
    n, stop = len(tokens), start + matched
    while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
        start -= 1
    while stop + period < n and tokens[stop] == tokens[stop + period]:
        stop += 1
    return start, period, stop - start


def _blocks(graph: Graph, producers: list[int], start: int, period: int, matched: int) -> Iterator[tuple[int, int]]:
    """The parts of a run whose blocks read their values alike: first node and number of blocks."""
    divergent = [_divergent_producer(graph, producers, i, i + period) for i in range(start, start + matched)]
    # for each phase at which blocks may start, how many divergent reads would come from before the block
    votes = np.zeros(2 * period + 1, np.int64)
    for i, producer in enumerate(divergent, start):
        if producer is not None:
            # the block must start after the producer and no later than the reader
            begin = (producer + 1 - start) % period
            votes[begin] += 1
            votes[begin + min(i - producer, period)] -= 1
    after = np.cumsum(votes)
    scores = after[:period] + after[period : 2 * period]
    jumps = _jumps([node.source for node in graph.nodes[start : start + 2 * period]], period)

    def rank(phase: int) -> tuple[int, int, int, int]:
        # ties: the phase whose blocks jump back least in the source, then the one with most blocks
        blocks = (matched + period - phase) // period
        return (-int(scores[phase]), int(jumps[phase]), -blocks, phase)

    phase = min(range(period), key=rank)
    first, count = start + phase, 1
    for block in range(start + phase, start + matched - period + 1, period):
        pairs = zip(range(block, block + period), divergent[block - start : block - start + period], strict=True)
        if any(producer is not None and producer >= block for _, producer in pairs):
            yield first, count
            first, count = block + period, 1
        else:
            count += 1
    yield first, count


def _divergent_producer(graph: Graph, producers: list[int], i: int, j: int) -> int | None:
    """The latest producer that only one of two corresponding nodes reads, at its position relative to the first.

    None if they read alike.
    """
    latest = None
    for a, b in zip(graph.nodes[i].inputs, graph.nodes[j].inputs, strict=True):
        near_a, near_b = producers[a], producers[b] - (j - i) if producers[b] >= 0 else -1
        if near_a < 0 and near_b < 0:
            continue
        if near_a != near_b or _output_index(producers, a) != _output_index(producers, b):
            latest = max(near_a, near_b) if latest is None else max(latest, near_a, near_b)
    return latest


def _output_index(producers: list[int], value: int) -> int:
    """The index of a value among its node's outputs."""
    index = 0
    while value > index and producers[value - index - 1] == producers[value]:
        index += 1
    return index


def _jumps(sources: Sequence[Source | None], period: int) -> np.ndarray:
    """For each phase, how often a block jumps back to an earlier instruction of a function.

    An iteration of a loop never does, except in functions that it calls several times.
    """
    counts = np.zeros(period + 1, np.int64)
    before: dict[int, tuple[int, int]] = {}
    for i, source in enumerate(sources):
        if source is None:
            continue
        position, offset = before.get(id(source.code), (0, -1))
        before[id(source.code)] = i, source.offset
        if i >= period and offset > source.offset:
            # the jump is inside a block unless the block starts between the two
            counts[:period] += 1
            phases = np.arange(position + 1, i + 1) % period
            counts[np.unique(phases)] -= 1
    return counts[:period]
