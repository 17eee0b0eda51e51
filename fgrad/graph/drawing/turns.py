"""One iteration of a loop as a ladder: the body of the loop, and that of its derivative."""

from collections.abc import Iterator, Sequence

from attrs import frozen

from fgrad.graph.drawing.ladder import Ladder, Pair, Row, aligned, numbers_of, sides
from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.regions import scan
from fgrad.jaxtypes import strong

#: an iteration's contribution to gradients that are summed over all iterations: see NOTE [Sums over steps]
SUMMED = "for the sums over all turns"


def turns(ladder: Ladder) -> Iterator[tuple[str, Ladder]]:
    """For each loop (``scan``) and its derivative: a title, and the ladder of an iteration."""
    nodes = ladder.graph.nodes
    for row in ladder.rows:
        loops = [[k for k in side if nodes[k].op.primitive is scan] for side in (row.forward, row.backward)]
        if list(map(len, loops)) == [1, 1]:
            loop, derivative = [_Loop.of(ladder, k) for (k,) in loops]
            yield f"one turn of scan, x{loop.length}", _Turn.of(ladder, loop, derivative).ladder()


@frozen(eq=False)
class _Loop:
    """A ``scan`` of a program.

    Attributes:
      inputs, outputs: the numbers of the values outside.
      carry: the positions of the carry among the inputs, after the constants and before the sequences.
    """

    body: Graph
    inputs: Sequence[int]
    outputs: Sequence[int]
    carry: range
    length: int

    @staticmethod
    def of(program: Ladder, position: int) -> "_Loop":
        node = program.graph.nodes[position]
        first = node.params["num_consts"]
        carry = range(first, first + node.params["num_carry"])
        return _Loop(node.params["body"], node.inputs, program.outs[position], carry, node.params["length"])


@frozen(eq=False)
class _Turn:
    """The bodies of a loop and of its derivative as one graph, in which residuals of the first are values.

    Attributes:
      program: the ladder that has both loops.
      own: the positions of those inputs of the derivative that do not come from the loop.
      graph: its inputs are those of the loop's body, then the derivative's own; its outputs those of both bodies.
      forward, backward: the numbers that the values of the two bodies have in the graph.
    """

    program: Ladder
    loop: _Loop
    derivative: _Loop
    own: Sequence[int]
    graph: Graph
    forward: Sequence[int]
    backward: Sequence[int]

    @staticmethod
    def of(program: Ladder, loop: _Loop, derivative: _Loop) -> "_Turn":
        one, other = loop.body, derivative.body
        # by its number outside, a value of the loop's body that the derivative reads
        shared = {i: k for k, i in enumerate(loop.inputs) if k not in loop.carry}
        for k in range(len(loop.carry), len(loop.outputs)):
            shared[loop.outputs[k]] = one.outputs[k]
        own = [k for k, i in enumerate(derivative.inputs) if i not in shared]
        # the graph has the inputs of both, then their constants, then the results of their nodes
        consts = len(one.in_types) + len(own)
        consts_of_other = consts + len(one.consts)
        results = consts_of_other + len(other.consts)
        results_of_other = results + len(one.types) - len(one.in_types) - len(one.consts)
        forward = [*range(len(one.in_types)), *range(consts, consts_of_other), *range(results, results_of_other)]
        new_inputs = iter(range(len(one.in_types), consts))
        backward = [forward[shared[i]] if i in shared else next(new_inputs) for i in derivative.inputs]
        backward += range(consts_of_other, results)
        backward += range(results_of_other, results_of_other + len(other.types) - len(backward))
        graph = Graph(
            (*one.in_types, *[other.in_types[k] for k in own]),
            (*one.consts, *other.consts),
            (*_renumbered(one, forward), *_renumbered(other, backward)),
            (*[forward[i] for i in one.outputs], *[backward[i] for i in other.outputs]),
        )
        return _Turn(program, loop, derivative, own, graph, forward, backward)

    def ladder(self) -> Ladder:
        names = self._names()
        results = tuple(self._results(names))
        for pair in results:
            if pair.partner is not None:
                names[pair.partner] = f"cotangent of {pair.name}"
        seeds = {pair.partner for pair in results}
        arguments = [pair for pair in self._arguments(names) if pair.value is None or pair.value not in seeds]
        nodes_of_other = set(range(len(self.loop.body.nodes), len(self.graph.nodes)))
        rows = aligned(self.graph, numbers_of(self.graph), nodes_of_other)
        return Ladder(self.graph, tuple(names), _joined(self.graph, rows), tuple(arguments), results)

    def _names(self) -> list[str]:
        """The names of values; an element of a sequence has the name of the sequence."""
        loop, derivative, names = self.loop, self.derivative, self.program.names
        inside = value_names(loop.body)

        def entering(owner: _Loop, k: int) -> str:
            if k not in owner.carry:
                return names[owner.inputs[k]] + "[t]" * (k >= owner.carry.stop)
            out = k - owner.carry.start
            if owner is derivative:
                return f"{names[derivative.outputs[out]]} so far"
            name = inside[loop.body.outputs[out]]
            return "the carry" if name.startswith("%") else f"{name} before"

        inputs = [entering(loop, k) for k in range(len(loop.inputs))]
        return list(value_names(self.graph, [*inputs, *[entering(derivative, k) for k in self.own]]))

    def _cotangents_of_carry(self) -> list[int]:
        """The inputs of the derivative that are cotangents of the loop's carry, with its types."""
        types, carry = self.derivative.body.in_types, self.derivative.carry
        carried = [strong(type) for type in self.loop.body.out_types]
        return [k for k in self.own if k in carry and types[k] == carried[k - carry.start]]

    def _arguments(self, names: Sequence[str]) -> Iterator[Pair]:
        """The inputs with their gradients, and gradients of other values."""
        loop, derivative = self.loop, self.derivative
        outside = [self.program.names[i] for i in derivative.outputs]
        inside = [self.backward[i] for i in derivative.body.outputs]
        owners = {self.program.names[i]: k for k, i in enumerate(loop.inputs)}
        carried = len(self._cotangents_of_carry())
        # by input, the output of the derivative that is its gradient
        gradients = {loop.carry.start + out: out for out in range(carried)}
        unowned = []
        for out in range(carried, len(outside)):
            owner = owners.get(sides(outside[out])[1])
            if owner is None:
                unowned.append(out)
            else:
                gradients[owner] = out
        called = [name + "[t]" * (out >= len(derivative.carry)) for out, name in enumerate(outside)]
        for k in range(len(self.graph.in_types)):
            if k not in gradients:
                yield Pair(k)
            else:
                out = gradients[k]
                yield Pair(k, inside[out], f"cotangent of {names[k]}" if k in loop.carry else called[out])
        for out in unowned:
            name = called[out]
            yield Pair(None, inside[out], SUMMED if name.startswith("%") else name)

    def _results(self, names: Sequence[str]) -> Iterator[Pair]:
        """The results of an iteration, each with its cotangent in backward."""
        loop, derivative = self.loop, self.derivative
        of_carry = self._cotangents_of_carry()
        of_sequence = {derivative.inputs[k]: k for k in self.own if k >= derivative.carry.stop}
        for k, (inside, outside) in enumerate(zip(loop.body.outputs, loop.outputs, strict=True)):
            is_carried = k < len(loop.carry)
            if is_carried and k < len(of_carry):
                cotangent = of_carry[k]
            else:
                cotangent = of_sequence.get(self.program.cotangents.get(outside, -1))
            partner = None if cotangent is None else self.backward[cotangent]
            if is_carried:
                yield Pair(self.forward[inside], partner, f"{names[self.forward[inside]]}, carried on")
            elif partner is not None:
                yield Pair(self.forward[inside], partner, f"{self.program.names[outside]}[t]")


def _renumbered(graph: Graph, numbers: Sequence[int]) -> list[Node]:
    """The nodes of a graph with new numbers."""
    return [Node(node.op, tuple([numbers[i] for i in node.inputs]), node.source) for node in graph.nodes]


def _joined(graph: Graph, rows: Iterator[Row]) -> tuple[Row, ...]:
    """Rows with derivatives computed in forward merged into the rows of their operations."""
    joined: list[Row] = []
    for row in rows:
        k = _row_of_operation(graph, row, joined)
        if k is None:
            joined.append(row)
        else:
            joined[k] = Row((*joined[k].forward, *row.forward), joined[k].backward)
    return tuple(joined)


def _row_of_operation(graph: Graph, row: Row, above: Sequence[Row]) -> int | None:
    """The row of the operation of which a forward row is a derivative; None if it is not one."""
    source = graph.nodes[row.forward[0]].source if row.forward and not row.backward else None
    if source is None or source.of is None:
        return None
    for k in reversed(range(len(above))):
        node = graph.nodes[above[k].forward[0]] if above[k].forward else None
        if node is not None and node.source is not None and node.op.name == source.of:
            return k
    return None
