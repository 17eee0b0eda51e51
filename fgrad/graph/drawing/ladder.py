"""A graph as a ladder: forward runs down on the left, backward up on the right, what is saved are the rungs.

NOTE [Ladders]
A row is an operation of the forward pass and, beside it, what backward does for it.  So every row has its place from
the forward order alone, and every value one *wire*: from the row that makes it to the rows that read it, on the left,
on the right, or across.  Arguments stand with their gradients, results with the cotangents that they are given.

Where backward has nothing to do for an operation (the cotangent of a sum is that of its terms) its row stands on the
right all the same and passes the cotangent on: the picture would have a gap there.
"""

import bisect
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import evolve, field, frozen

from fgrad.graph.graph import Graph
from fgrad.graph.names import value_names
from fgrad.graph.text import is_scalar

#: where a wire begins or ends: rows have a place on both sides, arguments and results (by position) a partner
FORWARD, BACKWARD, ARGUMENT, GRADIENT, RESULT, SEED = (
    "forward", "backward", "argument", "gradient", "result", "seed"
)  # fmt: skip
End = tuple[str, int]
#: how many rows a drawing shows before it leaves some out
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
    """Numbers of values: an argument and its gradient, or a result and its cotangent; None where there is none.

    ``name``: what the gradient or the result is called; one value may be several of them.
    """

    value: int | None
    partner: int | None = None
    name: str = ""


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
        """The numbers of the values that each node makes."""
        return numbers_of(self.graph)

    def bytes_of(self, value: int) -> int:
        """The memory of a value."""
        type = self.graph.types[value]
        return math.prod(type.shape) * type.dtype.itemsize


def shorter(ladder: Ladder, most: int = DRAWN_ROWS) -> Ladder:
    """A ladder of so many rows at most: those in the middle are left out."""
    count = len(ladder.rows) - most
    if count <= 0:
        return ladder
    return evolve(ladder, rows=(*ladder.rows[: most - most // 2], *ladder.rows[-(most // 2) :]), left_out=count)


def sides(name: str) -> tuple[str, str]:
    """The two sides of a derivative's name; of any other name, the name and nothing.

    >>> sides("d loss / d w"), sides("d (d f / d x) / d x"), sides("w")
    (('d loss', 'w'), ('d (d f / d x)', 'x'), ('w', ''))
    """
    of, sign, by = name.partition(" / d ")
    while sign and of.count("(") > of.count(")"):  # within parentheses
        more, sign, by = by.partition(" / d ")
        of = f"{of} / d {more}"
    return of, by


def numbers_of(graph: Graph) -> list[range]:
    """The numbers of the values that each node makes."""
    return [outs for _, outs in graph.numbered()]


def wires(ladder: Ladder) -> tuple[Wire, ...]:
    """The wires of a ladder, in the order of their values; what nobody reads has none."""
    starts, ends = _starts(ladder), _ends(ladder)
    cotangents = _Cotangents.of(ladder, ladder.outs)
    # neither a scalar, which is written where it is used, nor a value of a row that is left out has a start
    values = [value for value in sorted(ends) if value in starts]
    return tuple([wire for i in values for wire in _wires_of(ladder, i, starts[i], ends[i], cotangents)])


def _starts(ladder: Ladder) -> dict[int, End]:
    """Where the wire of each value begins."""
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
    """The wires of one value: on the left, and to the right or on it."""
    name = ladder.names[value]
    left = [end for end in ends if end[0] in (FORWARD, RESULT)]
    right = [end for end in ends if end[0] in (BACKWARD, GRADIENT)]
    if start[0] in (BACKWARD, SEED):
        yield from cotangents.wires(value, start, right)
        right = []
    elif given := [end for end in right if end[0] == GRADIENT and ladder.rows]:
        # a gradient that is a value of the forward pass: as if backward passed it on
        row = start[1] if start[0] == FORWARD else min([r for side, r in left if side == FORWARD], default=0)
        yield Wire(value, ladder.arguments[given[0][1]].name, (BACKWARD, row), tuple(given))
        right = list(dict.fromkeys([*[end for end in right if end not in given], (BACKWARD, row)]))
    for side_ends in (left, right):
        if side_ends:
            yield Wire(value, name, start, tuple(side_ends))


@frozen(eq=False)
class _Cotangents:
    """Which rows pass which cotangent on, and where the values that they pass it on to are made."""

    ladder: Ladder
    rows: dict[int, list[int]]
    places: dict[int, End]

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
        """The wires of a value on the right: from its maker, and from each row that passes it on."""
        passing = self.rows.get(value, ())
        every = [*ends, *[(BACKWARD, r) for r in passing if (BACKWARD, r) not in ends]]
        given: dict[End, list[tuple[End, int]]] = {}
        for r in passing:
            for i in self.ladder.rows[r].passes:
                place = self.places.get(i)
                if place in every and self.ladder.cotangents.get(i) == value and place != (BACKWARD, r):
                    given.setdefault((BACKWARD, r), []).append((place, i))
                    every.remove(place)
        name = self.ladder.names[value]
        if every:
            yield Wire(value, name, start, tuple(sorted(every, key=lambda end: -end[1])))
        of, _ = sides(name)
        for giver, reached in given.items():
            for place, i in reached:
                yield Wire(value, f"{of} / d {self.ladder.names[i]}", giver, (place,))


# --------------------------------------------------------------------------------------------------------------------
# ladders of graphs as they are


def arrays_of(graph: Graph) -> list[int]:
    """The numbers of the constants that are not written where they are used."""
    first = len(graph.in_types)
    return [first + k for k, const in enumerate(graph.consts) if not is_scalar(const)]


def ladder_of(graph: Graph, names: Sequence[str] | None = None, outputs: Sequence[str] = ()) -> Ladder:
    """The ladder of any graph: derivatives stand beside the operations of the same line that they are of.

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
    """The nodes of a backward pass: derivatives and what a pass adds to them, as far as nothing else reads them."""
    derived: set[int] = set()
    for node, made in zip(graph.nodes, outs, strict=True):
        if not derived.isdisjoint(node.inputs) if node.source is None else node.source.of is not None:
            derived.update(made)
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

    Backward goes through the operations from the last to the first.  So its own last node belongs to the first row that
    it can belong to by its line, and no other to a row above that of the node after it.  What one call on one line does
    again and again, with nothing between, cannot be told apart in this way; a ladder that is made together with the
    derivative knows it.
    """
    forward = [k for k in range(len(graph.nodes)) if k not in derived_nodes]
    row_of = {i: r for r, k in enumerate(forward) for i in outs[k]}
    same: dict[Hashable, list[int]] = {}
    for r, k in enumerate(forward):
        source = graph.nodes[k].source
        if source is not None:
            same.setdefault((source.code, source.offset, graph.nodes[k].op.name), []).append(r)
    # rows by place: (r, 0) are those of the operations, (r, n) those of derivatives whose operation is gone
    rows: dict[tuple[int, int], tuple[list[int], list[int]]] = {(r, 0): ([k], []) for r, k in enumerate(forward)}
    at = (0, 0)
    waiting: list[int] = []
    for source, run in itertools.groupby(sorted(derived_nodes, reverse=True), lambda k: graph.nodes[k].source):
        nodes = [*waiting, *run]
        waiting = nodes if source is None else []
        if source is None:  # stands where what it reads is made
            continue
        key = (source.code, source.offset, source.of)
        known = same.get(key, ())
        n = bisect.bisect_left(known, at[0] + (at[1] > 0))
        if n < len(known):
            at = (known[n], 0)
        else:  # below all that it reads
            at = (max([at[0], *[row_of.get(i, 0) for k in nodes for i in graph.nodes[k].inputs]]), at[1] + 1)
        rows.setdefault(at, ([], []))[1].extend(nodes)
    if waiting:  # what backward begins with
        rows[len(forward), 0] = [], waiting
    for place in sorted(rows):
        yield Row(tuple(rows[place][0]), tuple(sorted(rows[place][1])))
