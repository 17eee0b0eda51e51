"""Cutting a graph in two: what depends on some inputs, and what does not.

NOTE [Regions on the cut]
The tangents of a loop or a branch come from one region together with its values, so that region reads tangents and
yet has outputs that do not depend on them.  It is emitted twice: cut down to those outputs in the first half, and
with the others in the second.

NOTE [Repeated arrays]
A broadcast of a smaller array (a mean in the shape of its operand, the zeros to which gradients are added) is
recomputed in the second half: that is cheaper than keeping it in memory.

NOTE [References on the cut]
A reference is read and written in the second half: only a backward rule's accesses are in a graph that is cut, since
those of the function itself were made when it was recorded.
"""

from collections.abc import Sequence

from attrs import frozen

from fgrad import errors
from fgrad.graph.graph import Builder, Const, Graph, Node
from fgrad.graph.references import accesses_reference
from fgrad.passes.trim import TRIMMERS, Trimmed, trim


@frozen(eq=False)
class Halves:
    """``known``: known inputs -> (known outputs, residuals); ``unknown``: (residuals, unknown inputs) -> the rest.

    ``is_unknown`` says for each output of the whole graph in which half it is.
    """

    known: Graph
    unknown: Graph
    is_unknown: tuple[bool, ...]
    num_residuals: int


def partition(graph: Graph, unknown: Sequence[int], outputs: Sequence[bool] | None = None) -> Halves:
    """Cut ``graph`` at the values that do not depend on the inputs numbered ``unknown``.

    ``outputs`` forces some outputs into the unknown half (they are then residuals passed through).
    """
    late, early_parts = _late_values(graph, unknown)
    writer = _Writer(graph, unknown)
    for position, (node, outs) in enumerate(graph.numbered()):
        part = early_parts.get(position)
        if part is not None:
            writer.write_known(node, outs, part)
            writer.write_unknown(node, outs)
        elif accesses_reference(node) or not late.isdisjoint(outs or node.inputs):
            writer.write_unknown(node, outs)
        else:
            writer.write_known(node, outs, Trimmed(node.op, range(len(node.inputs)), range(len(outs))))
    return writer.halves([i in late for i in graph.outputs] if outputs is None else outputs)


def _late_values(graph: Graph, unknown: Sequence[int]) -> tuple[set[int], dict[int, Trimmed]]:
    """The values of the second half; and, by position, the regions that also have a part in the first half."""
    late = set(unknown)
    early_parts: dict[int, Trimmed] = {}
    for position, (node, outs) in enumerate(graph.numbered()):
        if late.isdisjoint(node.inputs) and not accesses_reference(node):
            continue
        part = _early_part(node, late)
        late.update(outs)
        if part is not None:
            early_parts[position] = part
            late.difference_update([outs[k] for k in part.outs])
    return late, early_parts


class _Writer:
    """Builds the two halves; its dictionaries map the graph's values to their numbers there."""

    def __init__(self, graph: Graph, unknown: Sequence[int]):
        late, n = set(unknown), len(graph.in_types)
        known = [i for i in range(n) if i not in late]
        self.graph: Graph = graph
        self.first: Builder = Builder([graph.in_types[i] for i in known])
        self.second: Builder = Builder([graph.in_types[i] for i in unknown])
        self.consts: dict[int, Const] = dict(enumerate(graph.consts, n))
        self.repeated: dict[int, Node] = repeated_arrays(graph)
        self.known: dict[int, int] = dict(zip(known, self.first.inputs, strict=True))
        self.known |= {i: self.first.const(const) for i, const in self.consts.items()}
        self.late_inputs: list[int] = self.second.inputs[:]
        self.late: dict[int, int] = dict(zip(unknown, self.late_inputs, strict=True))
        #: values that the second half takes from the first
        self.residuals: dict[int, int] = {}

    def write_known(self, node: Node, outs: range, part: Trimmed) -> None:
        """Write a node, or the part of it that does not depend on unknown inputs, into the first half."""
        first = self.first.emit(part.op, tuple([self.known[node.inputs[i]] for i in part.ins]), node.source)
        self.known.update((outs[k], first + j) for j, k in enumerate(part.outs))

    def write_unknown(self, node: Node, outs: range) -> None:
        """Write a node into the second half."""
        first = self.second.emit(node.op, tuple(map(self.read, node.inputs)), node.source)
        self.late.update((i, first + k) for k, i in enumerate(outs) if i not in self.known)

    def read(self, i: int) -> int:
        """The number of a value in the second half."""
        if i in self.late:
            return self.late[i]
        if i in self.consts:
            return self.second.const(self.consts[i])
        if i in self.repeated:
            self.write_repeated(i)
            return self.late[i]
        if i not in self.residuals:
            self.residuals[i] = self.second.input(self.graph.types[i])
        return self.residuals[i]

    def write_repeated(self, i: int) -> None:
        """Recompute a repeated array in the second half: see NOTE [Repeated arrays]."""
        node = self.repeated[i]
        self.late[i] = self.second.emit(node.op, tuple(map(self.read, node.inputs)), node.source)

    def halves(self, is_unknown: Sequence[bool]) -> Halves:
        outputs = self.graph.outputs
        late_outputs = [self.read(i) for i, unknown in zip(outputs, is_unknown, strict=True) if unknown]
        # keep only the residuals that the trimmed second half still reads
        full = trim(self.second.finish(late_outputs))
        read = {i for node in full.nodes for i in node.inputs} | set(full.outputs)
        position = {number: k for k, number in enumerate(self.second.inputs)}
        kept = [i for i, number in self.residuals.items() if position[number] in read]
        early = [i for i, unknown in zip(outputs, is_unknown, strict=True) if not unknown]
        for i in early:
            if i not in self.known:
                producer = next(node for node, outs in self.graph.numbered() if i in outs)
                raise errors.inseparable(producer.op.name)
        second = Builder(full.in_types)
        outs = second.splice(full, second.inputs)
        inputs = [position[number] for number in (*(self.residuals[i] for i in kept), *self.late_inputs)]
        return Halves(
            self.first.finish([self.known[i] for i in (*early, *kept)]),
            second.finish(outs, inputs),
            tuple(is_unknown),
            len(kept),
        )


def repeated_arrays(graph: Graph) -> dict[int, Node]:
    """Broadcasts of smaller arrays and iotas, with their nodes: see NOTE [Repeated arrays]."""
    return {
        outs[0]: node
        for node, outs in graph.numbered()
        if node.op.name in _REPEATING and all(t.size != node.op.out_types[0].size for t in node.op.in_types)
    }


_REPEATING = frozenset({"broadcast_in_dim", "iota"})


def _early_part(node: Node, late: set[int]) -> Trimmed | None:
    """A region cut down to the outputs that do not depend on ``late`` values: see NOTE [Regions on the cut]."""
    trimmer = TRIMMERS.get(node.op.primitive)
    if trimmer is None or node.op.effects:
        return None

    def cut(outs: list[int]) -> Trimmed | None:
        trimmed = trimmer(node, [k in outs for k in range(len(node.op.out_types))])
        return trimmed if trimmed is not None and not any(node.inputs[i] in late for i in trimmed.ins) else None

    outs = [k for k in range(len(node.op.out_types)) if cut([k]) is not None]
    return cut(outs) if outs else None
