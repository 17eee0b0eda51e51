"""Elementwise programs that write results over their operands, as an optimiser's step does.

NOTE [Overwriting]
A momentum step on 2.4 million numbers that leaves its operands as they are takes 7.9 ms, and 3.8 where it writes over
them: new arrays are in no cache, and as much again has to be read before it is written.  So where nobody else holds the
operands, arithmetic on large arrays is done block after block, and the results are stored where the operands were.

All blocks of all arrays are one call of functions written in C, which no signal handler interrupts: it writes
everything or, if it is not reached, nothing.

NOTE [Parts of a step]
Memory is read faster by several threads, so a large step is cut in parts, and helpers make the calls of all but the
first.  Each call passes Python's lock on, so the blocks are larger then.  Here a signal may arrive between the parts.
Once one of them may have begun, all are completed before the handler's exception leaves.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise, repeat, starmap
from operator import call
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.graph.graph import Graph, Node
from fgrad.run.blocks import BLOCK, LARGE
from fgrad.run.kernels.helpers import Task, limit, submit
from fgrad.run.kernels.kernel import kernel
from fgrad.run.numpy_program import with_calls_inlined

#: the elements of a block, and the least elements times lines of a part: NOTE [Parts of a step]
SHARED_BLOCK, PART = 1 << 17, 1 << 21

#: a call: a ufunc, its operands, and the array for its result; or a ufunc with that array, and its operands
Call = tuple[Any, ...]


@frozen
class Line:
    """A line of a chain: a ufunc, the numbers of its operands, and its result."""

    ufunc: np.ufunc
    operands: tuple[int, ...]
    number: int
    dtype: np.dtype[Any]


@frozen(eq=False)
class Chain:
    """Arithmetic on arrays of one shape, line after line in each block."""

    size: int
    lines: tuple[Line, ...]
    #: the operands that are read
    read: tuple[int, ...]
    #: by the number of a result, the operand that it is written over
    written: Mapping[int, int]

    def calls(self, arrays: Mapping[int, np.ndarray], scalars: Mapping[int, np.ndarray], some: range) -> Iterator[Call]:
        """The calls for some elements of flat arrays, in steps of a block; those overwritten can be written."""
        slices = [slice(start, min(start + some.step, some.stop)) for start in some]
        blocks: dict[int, Any] = {number: [arrays[number][s] for s in slices] for number in self.read}
        for number, buffer in self._buffers(some.step).items():
            blocks[number] = [buffer] * (len(slices) - 1) + [buffer[: some.stop - slices[-1].start]]
        for number, operand in self.written.items():
            blocks[number] = blocks[operand]
        lines = [
            _calls(
                line.ufunc,
                [blocks[i] if i in blocks else repeat(scalars[i]) for i in line.operands],
                blocks[line.number],
            )
            for line in self.lines
        ]
        return chain.from_iterable(zip(*lines, strict=True))

    def _buffers(self, block: int) -> dict[int, np.ndarray]:
        """Where a block of each intermediate result is kept; few buffers stay in the cache."""
        last = {i: at for at, line in enumerate(self.lines) for i in line.operands}
        buffers: dict[int, np.ndarray] = {}
        free: list[np.ndarray] = []
        for at, line in enumerate(self.lines):
            free += [buffers[i] for i in {*line.operands} & buffers.keys() if last[i] == at]
            if line.number not in self.written:
                found = next((k for k, buffer in enumerate(free) if buffer.dtype == line.dtype), None)
                buffers[line.number] = np.empty(block, line.dtype) if found is None else free.pop(found)
        return buffers


#: NumPy wants to be given their result by its name
_BY_NAME = (np.maximum, np.minimum)


def _calls(ufunc: np.ufunc, operands: Sequence[Iterable[Any]], results: Sequence[np.ndarray]) -> Iterator[Call]:
    """The calls of a ufunc for each block; where it may be, without an object for each."""
    if ufunc in _BY_NAME:
        return zip([partial(ufunc, out=result) for result in results], *operands, strict=False)
    return zip(repeat(ufunc), *operands, results, strict=False)


@frozen(eq=False)
class Overwriting:
    """A graph of which some results are written over operands."""

    #: by position, the results that are written over operands, and the positions of these
    written: Mapping[int, int]
    #: what computes the other results, and after these the scalars that the chains read
    rest: Graph
    scalars: tuple[int, ...]
    chains: tuple[Chain, ...]

    def parts(
        self, arrays: Mapping[int, np.ndarray], scalars: Sequence[Any], most: int | None = None
    ) -> list[Iterator[Call]]:
        """The calls that compute and write the results, in at most so many parts, for ``make_calls``.

        Arguments:
          arrays: the operands that chains read, flat, by position; those that are overwritten can be written.
          scalars: the last results of ``rest``.
          most: the most parts; if not given, as many as threads may compute.
        """
        most = most or limit.threads
        known = {i: np.asarray(x).reshape(()) for i, x in zip(self.scalars, scalars, strict=True)}
        count = max(1, min(most, sum([each.size * len(each.lines) for each in self.chains]) // PART))
        block = BLOCK if count == 1 else SHARED_BLOCK
        total = sum([each.size for each in self.chains])
        bounds = [total * k // count for k in range(count + 1)]
        parts = []
        for first, last in pairwise(bounds):
            calls, start = [], 0
            for each in self.chains:
                some = range(max(first - start, 0), min(last - start, each.size), block)
                if some:
                    calls.append(each.calls(arrays, known, some))
                start += each.size
            parts.append(chain.from_iterable(calls))
        return parts


def make_calls(parts: Sequence[Iterable[Call]], done: list[bool]) -> None:
    """Make all calls, and put a flag in ``done``; a signal is handled before or after."""
    if len(parts) == 1:
        _make(parts[0], done)
        return
    made: list[list[bool]] = [[] for _ in parts]
    tasks = [Task(partial(_make, iter(part), flag)) for part, flag in zip(parts, made, strict=True)]
    raised: list[BaseException] = []
    while not done:
        try:
            if not raised:
                for task in tasks[1:]:
                    submit(task)
            for task, flag in zip(tasks, made, strict=True):
                if not flag:
                    task.complete()
            done.append(True)
        except BaseException as error:
            raised.append(error)
    if raised:
        raise raised[0]


def _make(calls: Iterable[Call], made: list[bool]) -> None:
    deque(starmap(call, chain(calls, [(made.append, True)])), 0)


def overwriting(graph: Graph, overwritten: Mapping[int, int]) -> Overwriting | None:
    """How a graph writes results over operands, given by their positions; None if it cannot for any large array."""
    graph = with_calls_inlined(graph)
    types = graph.types
    written = {
        k: i
        for k, i in overwritten.items()
        if graph.outputs[k] >= len(graph.in_types)
        and math.prod(types[i].shape) >= LARGE
        and (types[i].shape, types[i].dtype) == (types[graph.outputs[k]].shape, types[graph.outputs[k]].dtype)
    }
    # of results that are the same value, one is written
    written = {k: i for k, i in written.items() if graph.outputs.index(graph.outputs[k]) == k}
    made = {outs[0]: node for node, outs in graph.numbered() if len(outs) == 1}
    while written:
        try:
            chains, scalars = _chains(graph, made, {graph.outputs[k]: i for k, i in written.items()})
        except _Unfit as unfit:
            written = {k: i for k, i in written.items() if graph.outputs[k] not in unfit.results}
            continue
        others = [out for k, out in enumerate(graph.outputs) if k not in written]
        return Overwriting(written, evolve(graph, outputs=(*others, *scalars)), scalars, chains)
    return None


class _Unfit(Exception):
    """Some results cannot be written over their operands."""

    def __init__(self, *results: int):
        self.results: tuple[int, ...] = results


def _chains(
    graph: Graph, made: Mapping[int, Node], written: Mapping[int, int]
) -> tuple[tuple[Chain, ...], tuple[int, ...]]:
    """The chains that compute some results, and the scalars that they read.

    Raises:
      _Unfit: a result needs other than arithmetic on arrays of its shape.
    """
    types = graph.types
    scalars: dict[int, None] = {}
    #: by the number of a value, the results that it leads to
    leads: dict[int, list[int]] = {}
    for result in written:
        pending, shape = [result], types[result].shape
        while pending:
            i = pending.pop()
            if types[i].shape == ():
                scalars[i] = None
            elif types[i].shape != shape or (i not in made and i >= len(graph.in_types)):
                raise _Unfit(result)
            elif result not in leads.setdefault(i, []):
                leads[i].append(result)
                pending += made[i].inputs if i in made else ()
    overwritten: set[int] = set()
    lines: dict[int, Line] = {}
    for number in sorted(made.keys() & leads.keys()):
        node = made[number]
        row = kernel(node.op)
        compute = row.compute if row is not None and row.elementwise else None
        if not isinstance(compute, np.ufunc) or not overwritten.isdisjoint(node.inputs):
            raise _Unfit(*leads[number])
        lines[number] = Line(compute, node.inputs, number, types[number].dtype)
        if number in written:
            overwritten.add(written[number])
    chains = []
    for results in _connected(leads.values()):
        own = {result: written[result] for result in results}
        connected = sorted(i for i, led in leads.items() if led[0] in results)
        read = dict.fromkeys([*[i for i in connected if i not in lines], *own.values()])
        size = math.prod(types[next(iter(results))].shape)
        chains.append(Chain(size, tuple([lines[i] for i in connected if i in lines]), tuple(read), own))
    return tuple(chains), tuple(scalars)


def _connected(groups: Iterable[Iterable[int]]) -> list[set[int]]:
    """The sets that remain when groups with a common element are joined."""
    joined: dict[int, set[int]] = {}
    for group in groups:
        whole = set(chain.from_iterable([joined.get(i, {i}) for i in group]))
        joined.update(dict.fromkeys(whole, whole))
    return list({id(whole): whole for whole in joined.values()}.values())
