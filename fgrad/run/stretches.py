"""Long graphs, run in stretches: equal ones share one compiled program.

NOTE [Stretches]
Interpreting costs some 20 us per node, and the time to compile a whole graph grows faster than its length.  But a long
graph was a Python loop, so cut into stretches of equal length it consists of a few programs, each run many times.  The
length has many divisors: a loop of ten operations or fewer then gives a handful of distinct stretches.  Loops of
different lengths share them.

A stretch is compiled without fusion, so it must not be called while JAX traces.  XLA fuses by computing each output
from the start, which takes quadratic time and code if, as in a forward pass whose values are kept, every value along a
chain is an output.
"""

from collections.abc import Sequence
from typing import Any

import jax
from attrs import frozen

from fgrad.graph.graph import Graph, Node, evaluate
from fgrad.graph.op import Op
from fgrad.run.background import Compilation, begun
from fgrad.run.cache import Cache
from fgrad.run.interpreter import as_arrays, interpret
from fgrad.run.policy import Pace, active

PART_LIMIT = 512
UNFUSED = {"xla_disable_hlo_passes": "fusion"}


class Part:
    """The graph of equal stretches and, after enough runs, its compiled form."""

    __slots__ = ("graph", "runs", "compilation")

    def __init__(self, graph: Graph):
        self.graph: Graph = graph
        self.runs: int = 0
        self.compilation: Compilation | None = None

    def __call__(self, args: Sequence[Any], pace: Pace) -> Sequence[Any]:
        if not self._ready(pace):
            return as_arrays(interpret(self.graph, args, pace.kernels), self.graph.out_types)
        assert self.compilation is not None
        try:
            return self.compilation.program(*args)
        except BaseException:
            self.compilation = None  # see NOTE [Interrupted in XLA]
            raise

    def _ready(self, pace: Pace) -> bool:
        """Count a run; returns whether the compiled form can run."""
        self.runs += 1
        if self.compilation is None and self.runs <= active().stretch_runs:
            return False
        graph = self.graph
        program = lambda: jax.jit(lambda *args: evaluate(graph, args), compiler_options=UNFUSED)  # noqa: E731
        self.compilation = begun(self.compilation, pace.compile, program, graph.in_types)
        return self.compilation.ready


@frozen(eq=False)
class Stretch:
    """Consecutive nodes: the values they read and produce, and those that are dead afterwards."""

    part: Part
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    dead: tuple[int, ...]


@frozen(eq=False)
class Stretches:
    """A graph in stretches; calling it runs it on flat values."""

    graph: Graph
    stretches: tuple[Stretch, ...]

    def __call__(self, args: Sequence[Any], pace: Pace) -> list[Any]:
        graph = self.graph
        values: list[Any] = [*args, *(const.value for const in graph.consts)]
        values += [None] * (len(graph.types) - len(values))
        for stretch in self.stretches:
            for i, out in zip(stretch.outs, stretch.part([values[i] for i in stretch.ins], pace), strict=True):
                values[i] = out
            for i in stretch.dead:
                values[i] = None
        return [values[i] for i in graph.outputs]


_parts: Cache[Graph, Part] = Cache(PART_LIMIT)


def cut(graph: Graph, length: int) -> Stretches:
    """Cut a graph into stretches of this many nodes."""
    count = -(-len(graph.nodes) // length)
    last = _last_readers(graph, length)
    parts: dict[tuple[tuple[Op, ...], tuple[tuple[int, ...], ...], tuple[int, ...]], Part] = {}
    stretches = []
    number = len(graph.in_types) + len(graph.consts)
    for index in range(count):
        nodes = graph.nodes[index * length : (index + 1) * length]
        end = number + sum([len(node.op.out_types) for node in nodes])
        ins = tuple(dict.fromkeys([i for node in nodes for i in node.inputs if i < number]))
        outs = tuple([i for i in range(number, end) if last[i] > index])
        # local numbering: the values read from outside by first use, then those computed
        own = {i: k for k, i in enumerate([*ins, *range(number, end)])}
        reads = tuple([tuple([own[i] for i in node.inputs]) for node in nodes])
        gives = tuple([own[i] for i in outs])
        key = (tuple([node.op for node in nodes]), reads, gives)
        part = parts.get(key)
        if part is None:
            types = tuple([graph.types[i] for i in ins])
            copies = [Node(node.op, read, node.source) for node, read in zip(nodes, reads, strict=True)]
            part = Part(Graph(types, (), tuple(copies), gives))
            part = parts[key] = _parts.enter(part.graph, part)
        stretches.append(Stretch(part, ins, outs, tuple([i for i in ins if last[i] == index])))
        number = end
    return Stretches(graph, tuple(stretches))


def _last_readers(graph: Graph, length: int) -> list[int]:
    """For each value, the last stretch that reads it; one beyond for an output of the graph, -1 for none."""
    count = -(-len(graph.nodes) // length)
    last = [-1] * len(graph.types)
    for position, node in enumerate(graph.nodes):
        for i in node.inputs:
            last[i] = position // length
    for i in graph.outputs:
        last[i] = count
    return last
