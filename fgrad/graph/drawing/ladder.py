"""A graph as a ladder: forward runs down on the left, backward up on the right; saved values are the rungs.

NOTE [Ladders]
A row is an operation of the forward pass and, next to it, its derivative.  So the forward order alone determines the
rows, and every value has one *wire*: from the row that computes it to the rows that read it, on the left, on the right,
or across.  Arguments are shown with their gradients, results with their cotangents.

If an operation needs nothing in backward (the cotangent of a sum is that of its terms), its row still has a right side,
which passes the cotangent on; otherwise there would be a gap.
"""

import bisect
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import evolve, field, frozen

from fgrad.graph.graph import Graph
from fgrad.graph.names import value_names
from fgrad.graph.text import bytes_of, is_scalar

#: the ends of wires: rows have both sides, arguments and results (by position) partners
FORWARD, BACKWARD, ARGUMENT, GRADIENT, RESULT, SEED = (
    "forward", "backward", "argument", "gradient", "result", "seed"
)  # fmt: skip
End = tuple[str, int]
#: the most rows that a drawing shows
DRAWN_ROWS = 1000


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
    """Numbers of values: an argument and its gradient, or a result and its cotangent; None for none.

    ``name`` is that of the gradient or the result; one value may be several of them.
    """

    value: int | None
    partner: int | None = None
    name: str = ""


@frozen
class Wire:
    """The wire of a value: its number and name, its start, and where it is read."""

    value: int
    name: str
    start: End
    ends: tuple[End, ...]

    @property
    def saved(self) -> bool:
        """Whether it is a rung: computed in forward, read in backward."""
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
      results: each with its cotangent.
      cotangents: for values of the forward pass, the number of their cotangent.
      left_out: how many rows of the middle are left out.
    """

    graph: Graph
    names: tuple[str, ...]
    rows: tuple[Row, ...]
    arguments: tuple[Pair, ...]
    results: tuple[Pair, ...]
    cotangents: Mapping[int, int] = field(factory=dict)
    left_out: int = 0

    @cached_property
    def outs(self) -> list[range]:
        """The numbers of each node's results."""
        return numbers_of(self.graph)

    def bytes_of(self, value: int) -> int:
        """The memory of a value."""
        return bytes_of(self.graph.types[value])


def shorter(ladder: Ladder, most: int = DRAWN_ROWS) -> Ladder:
    """A ladder with at most this many rows, without some in the middle."""
    count = len(ladder.rows) - most
    if count <= 0:
        return ladder
    return evolve(ladder, rows=(*ladder.rows[: most - most // 2], *ladder.rows[-(most // 2) :]), left_out=count)


def sides(name: str) -> tuple[str, str]:
    """The two sides of a derivative's name; any other name and the empty string.

    >>> sides("d loss / d w"), sides("d (d f / d x) / d x"), sides("w")
    (('d loss', 'w'), ('d (d f / d x)', 'x'), ('w', ''))
    """
    of, sign, by = name.partition(" / d ")
    while sign and of.count("(") > of.count(")"):  # within parentheses
        more, sign, by = by.partition(" / d ")
        of = f"{of} / d {more}"
    return of, by


def numbers_of(graph: Graph) -> list[range]:
    """The numbers of each node's results."""
    return [outs for _, outs in graph.numbered()]


def wires(ladder: Ladder) -> tuple[Wire, ...]:
    """The wires of a ladder, in the order of their values; unread values have none."""
    starts, ends = _starts(ladder), _ends(ladder)
    cotangents = _Cotangents.of(ladder, ladder.outs)
    # scalars, which are shown where they are used, and values of left-out rows have no start
    values = [value for value in sorted(ends) if value in starts]
    return tuple([wire for i in values for wire in _wires_of(ladder, i, starts[i], ends[i], cotangents)])


def _starts(ladder: Ladder) -> dict[int, End]:
    """The start of each value's wire."""
    starts: dict[int, End] = {}
    for k, pair in enumerate(ladder.arguments):
        if pair.value is not None:
            starts[pair.value] = ARGUMENT, k
    for k, pair in enumerate(ladder.results):
        if pair.partner is not None:
            starts[pair.partner] = SEED, k
    for r, row in enumerate(ladder.rows):
        for side, nodes in ((FORWARD, row.forward), (BACKWARD, row.backward)):
            starts.update({i: (side, r) for node in nodes for i in ladder.outs[node]})
    return starts


def _ends(ladder: Ladder) -> dict[int, list[End]]:
    """Where each value is read: in rows from the first to the last, as a result, as a gradient."""
    ends: dict[int, list[End]] = {}
    for r, row in enumerate(ladder.rows):
        for side, nodes in ((FORWARD, row.forward), (BACKWARD, row.backward)):
            own = {i for node in nodes for i in ladder.outs[node]}
            for i in dict.fromkeys([i for node in nodes for i in ladder.graph.nodes[node].inputs]):
                if i not in own:
                    ends.setdefault(i, []).append((side, r))
    for k, pair in enumerate(ladder.results):
        if pair.value is not None:
            ends.setdefault(pair.value, []).append((RESULT, k))
    for k, pair in enumerate(ladder.arguments):
        if pair.partner is not None:
            ends.setdefault(pair.partner, []).append((GRADIENT, k))
    return ends


def _wires_of(ladder: Ladder, value: int, start: End, ends: Sequence[End], cotangents: "_Cotangents") -> Iterator[Wire]:
    """The wires of one value: one on the left, and those to or on the right."""
    name = ladder.names[value]
    left = [end for end in ends if end[0] in (FORWARD, RESULT)]
    right = [end for end in ends if end[0] in (BACKWARD, GRADIENT)]
    if start[0] in (BACKWARD, SEED):
        yield from cotangents.wires(value, start, right)
        right = []
    elif gradients := [end for end in right if end[0] == GRADIENT and ladder.rows]:
        # a gradient that is a value of the forward pass is drawn as if backward passed it on
        row = start[1] if start[0] == FORWARD else min([r for side, r in left if side == FORWARD], default=0)
        yield Wire(value, ladder.arguments[gradients[0][1]].name, (BACKWARD, row), tuple(gradients))
        right = list(dict.fromkeys([*[end for end in right if end not in gradients], (BACKWARD, row)]))
    for side_ends in (left, right):
        if side_ends:
            yield Wire(value, name, start, tuple(side_ends))


@frozen(eq=False)
class _Cotangents:
    """The rows that pass on each cotangent, and by value the ends to which they pass it."""

    ladder: Ladder
    rows: dict[int, list[int]]
    ends: dict[int, End]

    @staticmethod
    def of(ladder: Ladder, outs: Sequence[range]) -> "_Cotangents":
        rows: dict[int, list[int]] = {}
        ends: dict[int, End] = {}
        for k, pair in enumerate(ladder.arguments):
            if pair.value is not None:
                ends[pair.value] = GRADIENT, k
        for r, row in enumerate(ladder.rows):
            ends.update({i: (BACKWARD, r) for node in row.forward for i in outs[node]})
            if row.passes and row.passes[0] in ladder.cotangents:
                rows.setdefault(ladder.cotangents[row.passes[0]], []).append(r)
        return _Cotangents(ladder, rows, ends)

    def wires(self, value: int, start: End, ends: Sequence[End]) -> Iterator[Wire]:
        """The wires of a value on the right: from its producer, and from each row that passes it on."""
        passing = self.rows.get(value, ())
        direct = [*ends, *[(BACKWARD, r) for r in passing if (BACKWARD, r) not in ends]]
        passed: dict[End, list[tuple[End, int]]] = {}
        for r in passing:
            for i in self.ladder.rows[r].passes:
                end = self.ends.get(i)
                if end in direct and self.ladder.cotangents.get(i) == value and end != (BACKWARD, r):
                    passed.setdefault((BACKWARD, r), []).append((end, i))
                    direct.remove(end)
        name = self.ladder.names[value]
        if direct:
            yield Wire(value, name, start, tuple(sorted(direct, key=lambda end: -end[1])))
        of, _ = sides(name)
        for passing_row, targets in passed.items():
            for end, i in targets:
                yield Wire(value, f"{of} / d {self.ladder.names[i]}", passing_row, (end,))


# --------------------------------------------------------------------------------------------------------------------
# ladders of graphs as they are


def arrays_of(graph: Graph) -> list[int]:
    """The numbers of the constants that are not scalars, which are shown where they are used."""
    first = len(graph.in_types)
    return [first + k for k, const in enumerate(graph.consts) if not is_scalar(const)]


def ladder_of(graph: Graph, names: Sequence[str] | None = None, outputs: Sequence[str] = ()) -> Ladder:
    """The ladder of any graph, with derivatives next to the operations with the same source line.

    Arguments:
      names: those of the inputs.
      outputs: those of the results; ``d loss / d w`` is the gradient of the input ``w``.
    """
    outs = numbers_of(graph)
    derived_nodes = _derivatives(graph, outs)
    late = {i for k in derived_nodes for i in outs[k]}
    named = list(value_names(graph, names or [f"%{i}" for i in range(len(graph.in_types))]))
    owners = {name: i for i, name in enumerate(named[: len(graph.in_types)])}
    partners: dict[int, tuple[int, str]] = {}
    results = []
    for k, i in enumerate(graph.outputs):
        name = outputs[k] if k < len(outputs) else f"output {k}" if len(graph.outputs) > 1 else "output"
        owner = owners.get(sides(name)[1])
        if owner is not None and owner not in partners:
            partners[owner] = i, name
        elif i in late:
            partners[-1 - k] = i, name
        else:
            results.append(Pair(i, None, name))
        if i in late:
            named[i] = name
    arguments = [Pair(i, *partners.get(i, (None, ""))) for i in [*range(len(graph.in_types)), *arrays_of(graph)]]
    arguments += [Pair(None, *partner) for owner, partner in partners.items() if owner < 0]
    return Ladder(graph, tuple(named), tuple(aligned(graph, outs, derived_nodes)), tuple(arguments), tuple(results))


def _derivatives(graph: Graph, outs: Sequence[range]) -> set[int]:
    """The nodes of a backward pass: derivatives, and nodes added by passes, unless other nodes read them."""
    derived: set[int] = set()
    for node, produced in zip(graph.nodes, outs, strict=True):
        if not derived.isdisjoint(node.inputs) if node.source is None else node.source.of is not None:
            derived.update(produced)
    needed: set[int] = set()
    derivative_nodes: set[int] = set()
    for k in reversed(range(len(graph.nodes))):
        node = graph.nodes[k]
        if not derived.isdisjoint(outs[k]) and needed.isdisjoint(outs[k]):
            derivative_nodes.add(k)
        else:
            needed.update(node.inputs)
    return derivative_nodes


def aligned(graph: Graph, outs: Sequence[range], derived_nodes: set[int]) -> Iterator[Row]:
    """The rows of a graph, in the order of the forward pass.

    Backward visits the operations from the last to the first.  So its last node belongs to the first row that has its
    source line, and no node belongs to a row above that of the node after it.  This cannot distinguish immediate
    repetitions of one call on one line; a ladder that is built with the derivative can.
    """
    forward = [k for k in range(len(graph.nodes)) if k not in derived_nodes]
    row_of = {i: r for r, k in enumerate(forward) for i in outs[k]}
    same: dict[Hashable, list[int]] = {}
    for r, k in enumerate(forward):
        source = graph.nodes[k].source
        if source is not None:
            same.setdefault((source.code, source.offset, graph.nodes[k].op.name), []).append(r)
    # rows by key: (r, 0) for the operations, (r, n) for derivatives whose operation is gone
    rows: dict[tuple[int, int], tuple[list[int], list[int]]] = {(r, 0): ([k], []) for r, k in enumerate(forward)}
    row_key = (0, 0)
    unplaced: list[int] = []
    for source, run in itertools.groupby(sorted(derived_nodes, reverse=True), lambda k: graph.nodes[k].source):
        nodes = [*unplaced, *run]
        unplaced = nodes if source is None else []
        if source is None:  # goes to the row of the next node with a source
            continue
        line = (source.code, source.offset, source.of)
        known = same.get(line, ())
        n = bisect.bisect_left(known, row_key[0] + (row_key[1] > 0))
        if n < len(known):
            row_key = (known[n], 0)
        else:  # below everything it reads
            producers = [row_of.get(i, 0) for k in nodes for i in graph.nodes[k].inputs]
            row_key = (max([row_key[0], *producers]), row_key[1] + 1)
        rows.setdefault(row_key, ([], []))[1].extend(nodes)
    if unplaced:  # the start of backward
        rows[len(forward), 0] = [], unplaced
    for key in sorted(rows):
        yield Row(tuple(rows[key][0]), tuple(sorted(rows[key][1])))
