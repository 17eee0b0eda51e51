"""The ladder of a function: its forward and backward graph, with each operation next to its derivative.

NOTE [Marked sources]
Only the pass that emits a node of the derivative knows which operation it is the derivative of.  Sources pass through
all passes and take no part in equality, so a ladder gives each node a source of its own, with the node's position.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from fgrad.graph.drawing.ladder import Ladder, Pair, Row, arrays_of, numbers_of
from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.source import Source
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import rule_of_name
from fgrad.passes.local import tangent_type
from fgrad.passes.partition import repeated_arrays
from fgrad.passes.simplify import Simplifier
from fgrad.passes.vjp import backward, forward
from fgrad.rules.kinds import Elementwise


@frozen
class _Mark(Source):
    """The source of the node at position ``node``; ``known`` says whether it had one of its own."""

    node: int = field(kw_only=True)
    known: bool = field(kw_only=True)

    def derivative_of(self, name: str) -> Source:
        return _Mark(self.code, self.offset, name, self.names, self.module, node=self.node, known=self.known)


def _mark(source: Source | None, node: int) -> _Mark:
    if source is None:
        return _Mark(_mark.__code__, 0, node=node, known=False)
    return _Mark(source.code, source.offset, source.of, source.names, source.module, node=node, known=True)


def ladder(graph: Graph, wrt: Sequence[int], names: Sequence[str], outputs: Sequence[str]) -> Ladder:
    """The ladder of a graph and of its reverse mode in the inputs ``wrt``.

    Arguments:
      names: those of the inputs.
      outputs: those of the outputs, of which the gradients get theirs: ``d loss / d w``.
    """
    marked = Graph(
        graph.in_types,
        graph.consts,
        tuple([Node(n.op, n.inputs, _mark(n.source, k)) for k, n in enumerate(graph.nodes)]),
        graph.outputs,
    )
    builder = Simplifier(graph.in_types)
    seeds = {
        k: builder.input(tangent_type(graph.types[i]))
        for k, i in enumerate(graph.outputs)
        if is_inexact(graph.types[i])
    }
    walk = forward(builder, marked, builder.inputs[: len(graph.in_types)], wrt, [graph.outputs[k] for k in seeds])
    cts = backward(walk, [(graph.outputs[k], ct) for k, ct in seeds.items()])
    wanted = [i for i in wrt if i in cts]
    results = [walk.numbers[i] for i in graph.outputs]
    values = list(range(len(graph.types)))
    full = builder.finish([
        *results, *[cts[i] for i in wanted], *[walk.numbers[i] for i in values], *cts.values()
    ])  # fmt: skip
    remaining = iter(full.outputs[len(results) + len(wanted) :])
    value_numbers = dict(zip(values, remaining, strict=False))
    ct_numbers = dict(zip(cts, remaining, strict=True))
    joint = Graph(full.in_types, full.consts, full.nodes, full.outputs[: len(results) + len(wanted)])
    duplicated, copied = _with_repeated_at_readers(joint, len(graph.in_types))
    cut, new = _needed(duplicated)
    primals = {i: new[copied[n]] for i, n in value_numbers.items() if copied[n] in new}
    cotangents = {i: new[copied[n]] for i, n in ct_numbers.items() if copied[n] in new}
    return _Writer(graph, cut, primals, cotangents, list(seeds), wrt, wanted).ladder(names, outputs)


def _late(graph: Graph, first: int) -> set[int]:
    """The values that depend on the inputs from ``first`` on, the cotangents of the results."""
    late = set(range(first, len(graph.in_types)))
    for node, outs in zip(graph.nodes, numbers_of(graph), strict=True):
        if not late.isdisjoint(node.inputs):
            late.update(outs)
    return late


def _with_repeated_at_readers(graph: Graph, first: int) -> tuple[Graph, list[int]]:
    """The graph with repeated arrays computed where they are read, and the new numbers of its values.

    Backward recomputes them (NOTE [Repeated arrays] of ``partition``).  In forward, a broadcast constant with several
    readers would draw wires between unrelated operations.
    """
    late = _late(graph, first)
    repeated = {i: node for i, node in repeated_arrays(graph).items() if i not in late}
    constants = range(len(graph.in_types), len(graph.in_types) + len(graph.consts))
    filled = {i for i, node in repeated.items() if all(k in constants for k in node.inputs)}
    readers = Counter(i for node in graph.nodes if late.isdisjoint(node.inputs) for i in dict.fromkeys(node.inputs))
    new = list(range(len(graph.in_types) + len(graph.consts)))
    of_backward: dict[int, int] = {}
    nodes: list[Node] = []
    number = len(new)
    for node, outs in zip(graph.nodes, numbers_of(graph), strict=True):
        backward = not late.isdisjoint(node.inputs)
        copies = of_backward if backward else {}
        duplicable = repeated if backward else filled
        wanted = [i for i in node.inputs if i in duplicable and i not in copies and (backward or readers[i] > 1)]
        for i in dict.fromkeys(wanted):
            nodes.append(Node(repeated[i].op, tuple([new[k] for k in repeated[i].inputs])))
            copies[i] = number
            number += 1
        nodes.append(Node(node.op, tuple([copies.get(i, new[i]) for i in node.inputs]), node.source))
        new += range(number, number + len(outs))
        number += len(outs)
    return Graph(graph.in_types, graph.consts, tuple(nodes), tuple([new[i] for i in graph.outputs])), new


def _needed(graph: Graph) -> tuple[Graph, dict[int, int]]:
    """The graph without dead code, and the new numbers of its remaining values."""
    outs = numbers_of(graph)
    read = set(graph.outputs)
    kept = []
    for k in reversed(range(len(graph.nodes))):
        if graph.nodes[k].op.effects or not read.isdisjoint(outs[k]):
            read.update(graph.nodes[k].inputs)
            kept.append(k)
    kept.reverse()
    first = len(graph.in_types)
    consts = [k for k in range(len(graph.consts)) if first + k in read]
    new = {i: i for i in range(first)}
    new |= {first + k: first + n for n, k in enumerate(consts)}
    number = first + len(consts)
    nodes = []
    for k in kept:
        node = graph.nodes[k]
        nodes.append(Node(node.op, tuple([new[i] for i in node.inputs]), node.source))
        new.update({i: number + n for n, i in enumerate(outs[k])})
        number += len(outs[k])
    outputs = tuple([new[i] for i in graph.outputs])
    return Graph(graph.in_types, tuple([graph.consts[k] for k in consts]), tuple(nodes), outputs), new


class _Writer:
    """``primals`` and ``cotangents`` map a value of the function to its number, and its cotangent's, in ``joint``."""

    def __init__(
        self,
        function: Graph,
        joint: Graph,
        primals: Mapping[int, int],
        cotangents: Mapping[int, int],
        seeds: Sequence[int],
        wrt: Sequence[int],
        wanted: Sequence[int],
    ):
        first, count = len(function.in_types), len(function.outputs)
        self.function, self.joint, self.primals, self.cotangents = function, joint, primals, cotangents
        self.wrt = wrt
        self.seeds = {k: first + n for n, k in enumerate(seeds)}
        self.gradients = dict(zip(wanted, joint.outputs[count:], strict=True))
        self.outs, self.function_outs = numbers_of(joint), numbers_of(function)
        #: the values of backward: those that depend on the outputs' cotangents
        self.late = _late(joint, first)
        read = {
            i
            for node, produced in zip(joint.nodes, self.outs, strict=True)
            if self.late.isdisjoint(produced)
            for i in node.inputs
        }
        # and the repeated arrays read only there
        self.late.update(repeated_arrays(joint).keys() - read - set(joint.outputs))

    def ladder(self, inputs: Sequence[str], outputs: Sequence[str]) -> Ladder:
        first, count = len(self.function.in_types), len(self.function.outputs)
        names = self._names(inputs, outputs)
        of = self._differentiated(names)
        wrt = set(self.wrt)
        arguments = [Pair(i, self.gradients.get(i), f"d {of} / d {inputs[i]}" * (i in wrt)) for i in range(first)]
        return Ladder(
            Graph(self.joint.in_types, self.joint.consts, self._unmarked(), self.joint.outputs),
            tuple(names),
            tuple(self._rows()),
            (*arguments, *[Pair(i) for i in arrays_of(self.joint)]),
            tuple([Pair(i, self.seeds.get(k), outputs[k]) for k, i in enumerate(self.joint.outputs[:count])]),
            {self.primals[i]: ct for i, ct in self.cotangents.items() if i in self.primals},
        )

    def _rows(self) -> Iterator[Row]:
        forward: dict[int, list[int]] = {}
        backward: dict[int, list[int]] = {}
        reader: dict[int, int] = {}
        for k in reversed(range(len(self.joint.nodes))):
            node = self.joint.nodes[k]
            mark = node.source
            # a node added by a pass belongs where it is first read
            position = (
                mark.node if isinstance(mark, _Mark) else min([reader.get(i, 0) for i in self.outs[k]], default=0)
            )
            side = backward if not self.late.isdisjoint(self.outs[k]) else forward
            side.setdefault(position, []).append(k)
            for i in node.inputs:
                reader[i] = min(position, reader.get(i, position))
        for position in sorted({*forward, *backward}):
            nodes = forward.get(position, [])[::-1]
            yield Row(tuple(nodes), tuple(backward.get(position, [])[::-1]), self._passed(position, nodes))

    def _passed(self, position: int, nodes: Sequence[int]) -> tuple[int, ...]:
        """The inputs whose cotangent is that of the operation's result, unchanged."""
        produced = {i for k in nodes for i in self.outs[k]}
        results = [i for i in self.function_outs[position] if self.primals.get(i) in produced]
        result_cts = {self.cotangents[i] for i in results if i in self.cotangents}
        inputs = [
            i
            for i in self.function.nodes[position].inputs
            if i in self.primals and self.cotangents.get(i) in result_cts
        ]
        return tuple(dict.fromkeys([self.primals[i] for i in inputs]))

    def _names(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        names = [f"%{i}" for i in range(len(self.joint.types))]
        own = set(self.primals.values())  # a function that is a derivative has slopes of its own
        for node, outs in zip(self.joint.nodes, self.outs, strict=True):
            of = node.source.of if node.source is not None else None
            if of is not None:
                slope = isinstance(rule_of_name(of), Elementwise)
                mark = node.source
                label = self.function.nodes[mark.node].op.params.get("label") if isinstance(mark, _Mark) else None
                name = f"slope of {of}" if slope else f"for {(label or of).strip('_')}"
                names[outs.start : outs.stop] = [f"%{i}" if i in self.late or i in own else name for i in outs]
        function_names = value_names(self.function, inputs)
        for k, n in enumerate(self.joint.outputs[: len(outputs)]):
            names[n] = outputs[k]
        for i, n in self.primals.items():
            if not function_names[i].startswith("%"):
                names[n] = function_names[i]
        of = self._differentiated(names)
        for i, n in sorted(self.cotangents.items()):
            if i in self.primals:
                names[n] = f"d {of} / d {_bracketed(names[self.primals[i]])}"
        for i, n in self.gradients.items():
            names[n] = f"d {of} / d {inputs[i]}"
        return names

    def _differentiated(self, names: Sequence[str]) -> str:
        """What the derivatives are of."""
        return _bracketed(names[self.joint.outputs[0]]) if len(self.function.outputs) == 1 else "outputs"

    def _unmarked(self) -> tuple[Node, ...]:
        nodes = []
        for node in self.joint.nodes:
            mark = node.source
            source = None
            if isinstance(mark, _Mark) and mark.known:
                source = Source(mark.code, mark.offset, mark.of, mark.names, mark.module)
            nodes.append(Node(node.op, node.inputs, source))
        return tuple(nodes)


def _bracketed(name: str) -> str:
    return f"({name})" if " / " in name else name
