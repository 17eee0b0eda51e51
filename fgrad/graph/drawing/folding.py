"""What of a drawing can be folded: the operations of a line, of a function, of a module, and blocks that repeat."""

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Literal

from attrs import frozen

from fgrad.graph.drawing.ladder import Ladder
from fgrad.graph.graph import Graph
from fgrad.graph.repeats import Repeat, repeats
from fgrad.graph.source import Source

#: in how much detail a drawing begins
Detail = Literal["operation", "line", "function"]
#: a drawing begins in the finest detail in which it has no more rows than this
MOST_ROWS: dict[Detail, int] = {"operation": 14, "line": 26}
#: so many equal blocks are folded, or two of so many rows
LEAST_REPEATS, LONG_BLOCK = 3, 8


@frozen
class Block:
    """Rows that can be drawn as one; ``kind``: ``row``, ``line``, ``function``, ``repeat``, ``turn`` or ``more``.

    A ``repeat`` holds its first ``turn``, and ``more``, which are the others.  ``id`` is of its own.
    """

    kind: str
    label: str
    start: int
    stop: int
    children: tuple["Block", ...] = ()

    @property
    def id(self) -> str:
        return f"{self.kind}{self.start}-{self.stop}"

    def walk(self) -> Iterator["Block"]:
        """The block and all within it, from the outside in."""
        yield self
        for child in self.children:
            yield from child.walk()


def source_of(ladder: Ladder, row: int) -> Source | None:
    """The user's line of a row."""
    found = ladder.rows[row]
    for k in (*found.forward, *found.backward):
        source = ladder.graph.nodes[k].source
        if source is not None:
            return source
    return None


def blocks(ladder: Ladder) -> tuple[Block, ...]:
    """The blocks of a ladder, side by side and one inside the other."""
    row_of = {k: r for r, row in enumerate(ladder.rows) for k in row.forward}
    nodes = ladder.graph.nodes
    # the operations of the function itself come first
    count = next((k for k, n in enumerate(nodes) if k not in row_of or (n.source and n.source.of)), len(nodes))
    own = Graph(ladder.graph.in_types, ladder.graph.consts, nodes[:count], ())
    return tuple(_repeated(ladder, repeats(own), row_of, 0, len(ladder.rows)))


def _repeated(
    ladder: Ladder, found: Sequence[Repeat], row_of: dict[int, int], start: int, stop: int
) -> Iterator[Block]:
    """Rows in order, with a block for each repetition."""
    for repeat in found:
        edges = [row_of[repeat.first + k * repeat.length] for k in range(repeat.count)]
        edges.append(row_of[repeat.stop - 1] + 1)
        if edges != sorted(set(edges)) or edges[0] < start or edges[-1] > stop:
            continue
        if repeat.count < LEAST_REPEATS and edges[1] - edges[0] < LONG_BLOCK:
            continue
        yield from _by_function(ladder, start, edges[0])
        turns = []
        for k, (a, b) in enumerate(itertools.pairwise(edges)):
            inside = tuple(_repeated(ladder, repeat.inner if k == 0 else (), row_of, a, b))
            turns.append(Block("turn", f"{k + 1} of {repeat.count}", a, b, inside))
        more = Block("more", f"{repeat.count - 1} more", edges[1], edges[-1], tuple(turns[1:]))
        yield Block("repeat", f"x{repeat.count}", edges[0], edges[-1], (turns[0], more))
        start = edges[-1]
    yield from _by_function(ladder, start, stop)


def _by_function(ladder: Ladder, start: int, stop: int) -> Iterator[Block]:
    def function(row: int) -> Hashable:
        source = source_of(ladder, row)
        return None if source is None else source.code

    runs = list(_runs(start, stop, function))
    for a, b in runs:
        lines = tuple(_by_line(ladder, a, b))
        source = source_of(ladder, a)
        if len(lines) > 1 and source is not None and len({function(r) for r in range(len(ladder.rows))}) > 1:
            yield Block("function", source.function.rpartition(".<locals>.")[2], a, b, lines)
        else:
            yield from lines


def _by_line(ladder: Ladder, start: int, stop: int) -> Iterator[Block]:
    def line(row: int) -> Hashable:
        source = source_of(ladder, row)
        return row if source is None else (source.code, source.line)

    for a, b in _runs(start, stop, line):
        rows = tuple([Block("row", "", r, r + 1) for r in range(a, b)])
        source = source_of(ladder, a)
        if len(rows) > 1 and source is not None:
            yield Block("line", f"line {source.line}", a, b, rows)
        else:
            yield from rows


def _runs(start: int, stop: int, key: Callable[[int], Hashable]) -> Iterator[tuple[int, int]]:
    for _, run in itertools.groupby(range(start, stop), key):
        rows = list(run)
        yield rows[0], rows[-1] + 1


def closed_at(found: Sequence[Block], detail: Detail) -> frozenset[str]:
    """The ids of the blocks that are folded in some detail."""
    kinds = {"operation": ("more",), "line": ("more", "line"), "function": ("more", "line", "function")}[detail]
    return frozenset([block.id for top in found for block in top.walk() if block.kind in kinds])


def folded(found: Sequence[Block], detail: Detail | None = None) -> frozenset[str]:
    """The ids of the blocks that are folded at first: in some detail, or so that not too many rows are drawn."""
    if detail is not None:
        return closed_at(found, detail)
    for fine, most in MOST_ROWS.items():
        closed = closed_at(found, fine)
        if len(visible(found, closed)) <= most:
            return closed
    return closed_at(found, "function")


def visible(found: Sequence[Block], closed: frozenset[str]) -> list[Block]:
    """The blocks and rows that are drawn as one, in order, when some are folded."""
    shown: list[Block] = []
    for block in found:
        if block.children and block.id not in closed:
            shown += visible(block.children, closed)
        else:
            shown.append(block)
    return shown
