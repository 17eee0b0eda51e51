"""A graph as a ladder: forward runs down on the left, backward up on the right, what is saved are the rungs.

NOTE [Ladders]
A row is an operation of the forward pass and, beside it, what backward does for it.  So every row has its place from
the forward order alone, and every value one *wire*: from the row that makes it to the rows that read it, on the left,
on the right, or across.  Arguments stand with their gradients, results with the cotangents that they are given.

Where backward has nothing to do for an operation (the cotangent of a sum is that of its terms) its row stands on the
right all the same and passes the cotangent on: the picture would have a gap there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.text import is_scalar

#: where a wire begins or ends: rows have a place on both sides, arguments and results (by position) a partner
FORWARD, BACKWARD, ARGUMENT, GRADIENT, RESULT, SEED = (
    "forward", "backward", "argument", "gradient", "result", "seed"
)  # fmt: skip
End = tuple[str, int]


@frozen
class Row:
    """Positions of nodes: those of one operation, and those of its derivative.

    ``passes``: for its cotangent, the values of the forward pass whose cotangent is the same.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...] = ()
    passes: tuple[int, ...] = ()


@frozen
class Pair:
    """Numbers of values: an argument and its gradient, or a result and its cotangent; None where there is none."""

    value: int | None
    partner: int | None = None


@frozen
class Wire:
    """A value on its way: its number and name, where it begins, and where it is read."""

    value: int
    name: str
    start: End
    ends: tuple[End, ...]

    @property
    def saved(self) -> bool:
        """Whether it is a rung: made by forward, read by backward."""
        return self.side == 1

    @property
    def side(self) -> int:
        """0 for the left side, 1 for a rung, 2 for the right side."""
        if self.start[0] in (BACKWARD, SEED):
            return 2
        return 1 if self.ends[0][0] in (BACKWARD, GRADIENT) else 0


@frozen(eq=False)
class Ladder:
    """A graph with every node in a row, every value with a name.

    Attributes:
      graph: the nodes of forward and backward in one graph.
      names: the name of each value, by number.
      rows: in the order of the forward pass.
      arguments: each with its gradient; constants that are arrays are among them.
      results: each with the cotangent that it is given.
      cotangents: for values of the forward pass, the number of their cotangent.
    """

    graph: Graph
    names: tuple[str, ...]
    rows: tuple[Row, ...]
    arguments: tuple[Pair, ...]
    results: tuple[Pair, ...]
    cotangents: Mapping[int, int] = field(factory=dict)

    @property
    def two_sided(self) -> bool:
        """Whether there is a backward pass."""
        return any(row.backward or row.passes for row in self.rows) or any(
            pair.partner is not None for pair in (*self.arguments, *self.results)
        )

    def bytes_of(self, value: int) -> int:
        """The memory of a value."""
        type = self.graph.types[value]
        return math.prod(type.shape) * type.dtype.itemsize


def numbers_of(graph: Graph) -> list[range]:
    """The numbers of the values that each node makes."""
    found, number = [], len(graph.in_types) + len(graph.consts)
    for node in graph.nodes:
        found.append(range(number, number + len(node.op.out_types)))
        number += len(node.op.out_types)
    return found


def wires(ladder: Ladder) -> tuple[Wire, ...]:
    """The wires of a ladder, in the order of their values; what nobody reads has none."""
    graph = ladder.graph
    outs = numbers_of(graph)
    starts: dict[int, End] = {}
    for k, pair in enumerate(ladder.arguments):
        if pair.value is not None:
            starts[pair.value] = ARGUMENT, k
    for k, pair in enumerate(ladder.results):
        if pair.partner is not None:
            starts[pair.partner] = SEED, k
    ends: dict[int, list[End]] = {}
    for r, row in enumerate(ladder.rows):
        for side, nodes in ((FORWARD, row.forward), (BACKWARD, row.backward)):
            own = {i for node in nodes for i in outs[node]}
            starts.update(dict.fromkeys(own, (side, r)))
            for i in dict.fromkeys([i for node in nodes for i in graph.nodes[node].inputs]):
                if i not in own:
                    ends.setdefault(i, []).append((side, r))
    for k, pair in enumerate(ladder.results):
        if pair.value is not None:
            ends.setdefault(pair.value, []).append((RESULT, k))
    for k, pair in enumerate(ladder.arguments):
        if pair.partner is not None:
            ends.setdefault(pair.partner, []).append((GRADIENT, k))
    found = []
    for value in sorted(ends):
        if value not in starts:  # a scalar, which is written where it is used
            continue
        found += _wires_of(ladder, value, starts[value], ends[value])
    return tuple(found)


def _wires_of(ladder: Ladder, value: int, start: End, ends: Sequence[End]) -> Iterator[Wire]:
    """The wires of one value: one on its own side, a rung, and for a cotangent those between rows that pass it on."""
    left = [end for end in ends if end[0] in (FORWARD, RESULT)]
    right = [end for end in ends if end[0] in (BACKWARD, GRADIENT)]
    name = ladder.names[value]
    if start[0] in (FORWARD, ARGUMENT):
        for some in (left, right):
            if some:
                yield Wire(value, name, start, tuple(some))
        return
    right += [
        (BACKWARD, r)
        for r, row in enumerate(ladder.rows)
        if row.passes and ladder.cotangents.get(row.passes[0]) == value and (BACKWARD, r) not in right
    ]
    above: dict[tuple[End, str], list[End]] = {}
    for end in right:
        above.setdefault(_giver(ladder, value, end) or (start, name), []).append(end)
    for (giver, label), some in above.items():
        yield Wire(value, label, giver, tuple(sorted(some, key=lambda end: -end[1])))
    if left:  # a derivative that the function itself uses
        yield Wire(value, name, start, tuple(left))


def _giver(ladder: Ladder, cotangent: int, end: End) -> tuple[End, str] | None:
    """The row that passes a cotangent on to a place, and its name there; None where it comes from its maker."""
    outs = numbers_of(ladder.graph) if end[0] == BACKWARD else []
    if end[0] == GRADIENT:
        mine = {ladder.arguments[end[1]].value}
    else:
        mine = {i for node in ladder.rows[end[1]].forward for i in outs[node]}
    for r, row in enumerate(ladder.rows):
        if row.passes and ladder.cotangents.get(row.passes[0]) == cotangent and (BACKWARD, r) != end:
            for value in row.passes:
                if value in mine and ladder.cotangents.get(value) == cotangent:
                    return (BACKWARD, r), _cotangent_name(ladder, cotangent, value)
    return None


def _cotangent_name(ladder: Ladder, cotangent: int, value: int) -> str:
    head = ladder.names[cotangent].rpartition(" / d ")[0]
    return f"{head} / d {ladder.names[value]}" if head else ladder.names[cotangent]


# --------------------------------------------------------------------------------------------------------------------
# ladders of graphs as they are


def arrays_of(graph: Graph) -> list[int]:
    """The numbers of the constants that are not written where they are used."""
    first = len(graph.in_types)
    return [first + k for k, const in enumerate(graph.consts) if not is_scalar(const)]


def ladder_of(graph: Graph, names: Sequence[str] | None = None, outputs: Sequence[str] = ()) -> Ladder:
    """The ladder of any graph: nodes that are derivatives stand beside the operations of the same line that they are of.

    Arguments:
      names: those of the inputs.
      outputs: those of the results.
    """
    back = _derivatives(graph)
    forward = [k for k in range(len(graph.nodes)) if k not in back]
    rows: list[tuple[list[int], list[int]]] = [([k], []) for k in forward]
    outs = numbers_of(graph)
    row_of = {i: r for r, k in enumerate(forward) for i in outs[k]}
    at = 0
    for k in reversed(range(len(graph.nodes))):
        if k not in back:
            continue
        place = next((r for r in range(at, len(rows)) if _belongs(graph, k, rows[r])), None)
        if place is None:  # its operation is gone: below the last row that it reads from
            place = 1 + max([row_of.get(i, -1) for i in graph.nodes[k].inputs], default=-1)
            place = max(place, at + bool(rows[at:]) if rows else 0)
            rows.insert(place, ([], []))
            row_of = {i: r + (r >= place) for i, r in row_of.items()}
        rows[place][1].insert(0, k)
        at = place
    late = {i for k in back for i in outs[k]}
    arguments = [Pair(i) for i in range(len(graph.in_types))] + [Pair(i) for i in arrays_of(graph)]
    results = []
    for i in graph.outputs:
        (arguments if i in late else results).append(Pair(None, i) if i in late else Pair(i))
    named = list(value_names(graph, names or [f"%{i}" for i in range(len(graph.in_types))]))
    return Ladder(
        graph, tuple(named), tuple([Row(tuple(a), tuple(b)) for a, b in rows]), tuple(arguments), tuple(results)
    )


def _derivatives(graph: Graph) -> set[int]:
    """The nodes of a backward pass: derivatives, as far as nothing else reads them."""
    outs = numbers_of(graph)
    needed: set[int] = set()
    found: set[int] = set()
    for k in reversed(range(len(graph.nodes))):
        node = graph.nodes[k]
        if node.source is not None and node.source.of is not None and needed.isdisjoint(outs[k]):
            found.add(k)
        else:
            needed.update(node.inputs)
    return found


def _belongs(graph: Graph, k: int, row: tuple[list[int], list[int]]) -> bool:
    """Whether a derivative belongs to a row: to its operation, or to the derivative that stands there already."""
    source = graph.nodes[k].source
    assert source is not None
    for other in row[0]:
        node: Node = graph.nodes[other]
        if node.source is not None and (node.source.code, node.source.offset) == (source.code, source.offset):
            if node.op.name == source.of:
                return True
    return any(graph.nodes[other].source == source for other in row[1])
