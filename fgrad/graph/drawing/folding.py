"""The blocks of a drawing that can be folded: a line, a function, a module, and blocks that repeat."""

import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Literal

from attrs import evolve, frozen

from fgrad.graph.drawing.ladder import Ladder, numbers_of
from fgrad.graph.graph import Graph, Node
from fgrad.graph.repeats import Repeat, repeats, token
from fgrad.graph.source import Source

#: the level of detail in which a drawing starts
Detail = Literal["operation", "line", "function", "module"]
#: a drawing starts in the finest detail in which it has at most this many rows
MOST_ROWS: dict[Detail, int] = {"operation": 14, "line": 18, "function": 18}
#: the kinds of blocks that are folded in each detail; of modules, only the innermost
FOLDED: dict[Detail, tuple[str, ...]] = {
    "operation": ("more",),
    "line": ("more", "line"),
    "function": ("more", "line", "function"),
    "module": ("more", "line", "function", "module"),
}
#: the fewest equal blocks that are folded, and the rows from which two are enough
LEAST_REPEATS, LONG_BLOCK = 3, 8


@frozen
class Block:
    """Rows that can be drawn as one.

    ``kind``: ``row``, ``line``, ``function``, ``module``, ``repeat``, ``turn`` or ``more``.  A ``repeat`` has its first
    iteration, a ``turn``, and ``more`` with the others.  ``id`` is unique.
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
        """The block and all blocks inside it, outermost first."""
        yield self
        for child in self.children:
            yield from child.walk()


def source_of(ladder: Ladder, row: int) -> Source | None:
    """The user's line of a row."""
    shown_row = ladder.rows[row]
    for k in (*shown_row.forward, *shown_row.backward):
        source = ladder.graph.nodes[k].source
        if source is not None:
            return source
    return None


def blocks(ladder: Ladder) -> tuple[Block, ...]:
    """The blocks of a ladder.

    Rows are grouped by module, and consecutive equal modules into repeats; rows outside modules are grouped by repeats
    of equal operations, and by function and line.
    """
    return tuple(_by_module(ladder, 0, len(ladder.rows), 0))


# --------------------------------------------------------------------------------------------------------------------
# modules


def _path(ladder: Ladder, row: int) -> list[str]:
    source = source_of(ladder, row)
    return re.split("[./]", source.module) if source is not None and source.module else []


def _by_module(ladder: Ladder, start: int, stop: int, depth: int) -> Iterator[Block]:
    """Blocks for the modules at some depth of their paths, and for rows outside modules."""

    def part(row: int) -> str:
        path = _path(ladder, row)
        return path[depth] if depth < len(path) else ""

    modules_and_rows: list[Block] = []
    for a, b in _runs(start, stop, part):
        if part(a):
            modules_and_rows.append(_module(part(a), tuple(_by_module(ladder, a, b, depth + 1)), a, b))
        else:
            modules_and_rows += _repeated(ladder, a, b, range(start, stop))
    yield from _alike(ladder, modules_and_rows)


def _module(label: str, inside: tuple[Block, ...], start: int, stop: int) -> Block:
    """The block of a module; a module that only has another one inside is merged with it: ``blocks.0``."""
    if len(inside) == 1 and inside[0].kind in ("module", "repeat") and inside[0].children:
        (only,) = inside
        return evolve(only, label=f"{label}.{only.label}" if only.kind == "module" else f"{label} {only.label}")
    return Block("module", label, start, stop, inside)


def _alike(ladder: Ladder, siblings: Sequence[Block]) -> Iterator[Block]:
    """The blocks, with consecutive equal modules as a repeat."""
    constants = constants_of(ladder.graph)

    def key(block: Block) -> Hashable:
        if block.kind != "module":
            return block.id
        nodes = [k for row in ladder.rows[block.start : block.stop] for k in row.forward if k not in constants]
        return tuple([token(ladder.graph.nodes[k].op) for k in nodes])

    for _, same in itertools.groupby(siblings, key):
        iterations = list(same)
        if _is_worth_folding(len(iterations), iterations[0].stop - iterations[0].start):
            yield _repeat([evolve(iteration, kind="turn") for iteration in iterations])
        else:
            yield from iterations


def _is_worth_folding(count: int, length: int) -> bool:
    """Whether to fold this many equal blocks of this many rows."""
    return count >= LEAST_REPEATS or (count > 1 and length >= LONG_BLOCK)


def _repeat(turns: Sequence[Block]) -> Block:
    first, *others = turns
    more = Block("more", f"{len(others)} more", others[0].start, others[-1].stop, tuple(others))
    return Block("repeat", f"x{len(turns)}", first.start, more.stop, (first, more))


# --------------------------------------------------------------------------------------------------------------------
# rows outside modules


def _repeated(ladder: Ladder, start: int, stop: int, around: range) -> Iterator[Block]:
    """Rows in order, with a block for each repetition; ``around`` are the rows of their module."""
    row_of = {k: r for r in range(start, stop) for k in ladder.rows[r].forward}
    nodes, constants = ladder.graph.nodes, constants_of(ladder.graph)
    # the function's own operations come first; constants do not count, since only the first iteration computes them
    first = min(row_of, default=0)
    last = next((k for k in range(first, len(nodes)) if k not in row_of or _is_derived(nodes[k])), len(nodes))
    own = [k for k in range(first, last) if k not in constants]
    placed = [_with_node_positions(repeat, own) for repeat in repeats(_part(ladder, own))]
    yield from _with_repeats(ladder, placed, row_of, start, stop, around)


def constants_of(graph: Graph) -> set[int]:
    """The nodes that depend on no input."""
    varying = set(range(len(graph.in_types)))
    constants = set()
    for k, (node, outs) in enumerate(zip(graph.nodes, numbers_of(graph), strict=True)):
        if varying.isdisjoint(node.inputs):
            constants.add(k)
        else:
            varying.update(outs)
    return constants


def _part(ladder: Ladder, own: Sequence[int]) -> Graph:
    """Some nodes as a graph, with the results of others as inputs."""
    inside = {i for k in own for i in ladder.outs[k]}
    outside = [i for i in range(len(ladder.graph.types)) if i not in inside]
    new = {i: n for n, i in enumerate([*outside, *[i for k in own for i in ladder.outs[k]]])}
    nodes = [ladder.graph.nodes[k] for k in own]
    types = tuple([ladder.graph.types[i] for i in outside])
    return Graph(types, (), tuple([Node(n.op, tuple([new[i] for i in n.inputs]), n.source) for n in nodes]), ())


@frozen
class _Repetition:
    """A repetition in a ladder: the first node of each iteration, the last node of all, and repeats in the first."""

    starts: tuple[int, ...]
    last: int
    inner: tuple["_Repetition", ...]


def _with_node_positions(repeat: Repeat, own: Sequence[int]) -> _Repetition:
    starts = [own[repeat.first + k * repeat.length] for k in range(repeat.count)]
    inner = tuple([_with_node_positions(each, own) for each in repeat.inner])
    return _Repetition(tuple(starts), own[repeat.stop - 1], inner)


def _is_derived(node: Node) -> bool:
    return node.source is not None and node.source.of is not None


def _with_repeats(
    ladder: Ladder, repetitions: Sequence[_Repetition], row_of: dict[int, int], start: int, stop: int, around: range
) -> Iterator[Block]:
    for repeat in repetitions:
        edges = [*[row_of[k] for k in repeat.starts], row_of[repeat.last] + 1]
        if edges != sorted(set(edges)) or edges[0] < start or edges[-1] > stop:
            continue
        if not _is_worth_folding(len(repeat.starts), edges[1] - edges[0]):
            continue
        yield from _by_function(ladder, start, edges[0], around)
        iterations = []
        for k, (a, b) in enumerate(itertools.pairwise(edges)):
            inside = tuple(_with_repeats(ladder, repeat.inner if k == 0 else (), row_of, a, b, around))
            iterations.append(Block("turn", f"{k + 1} of {len(repeat.starts)}", a, b, inside))
        yield _repeat(iterations)
        start = edges[-1]
    yield from _by_function(ladder, start, stop, around)


def _by_function(ladder: Ladder, start: int, stop: int, around: range) -> Iterator[Block]:
    def function(row: int) -> Hashable:
        source = source_of(ladder, row)
        return None if source is None else source.code

    several = len({function(row) for row in around}) > 1
    for a, b in _runs(start, stop, function):
        lines = tuple(_by_line(ladder, a, b))
        source = source_of(ladder, a)
        if len(lines) > 1 and source is not None and several:
            yield Block("function", source.function.rpartition(".<locals>.")[2], a, b, lines)
        else:
            yield from lines


def _by_line(ladder: Ladder, start: int, stop: int) -> Iterator[Block]:
    iteration, before = 0, None

    def line(row: int) -> Hashable:
        nonlocal iteration, before
        source = source_of(ladder, row)
        if source is None:
            return row
        position = source.code, source.line
        # a line that jumps back to an earlier instruction runs again
        iteration += before is not None and before[0] == position and source.offset < before[1]
        before = position, source.offset
        return (*position, iteration)

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


def closed_at(roots: Sequence[Block], detail: Detail) -> frozenset[str]:
    """The ids of the blocks that are folded in some detail."""
    all_blocks = [block for top in roots for block in top.walk()]
    return frozenset(
        [b.id for b in all_blocks if b.kind in FOLDED[detail] and (b.kind != "module" or _modules_in(b) == 1)]
    )


def _modules_in(block: Block) -> int:
    """How deeply modules are nested in a block, itself counted if it is one."""
    return (block.kind == "module") + max(map(_modules_in, block.children), default=0)


def folded(roots: Sequence[Block], detail: Detail | None = None) -> frozenset[str]:
    """The ids of the blocks that are folded at first: in some detail, or so that not too many rows are drawn.

    If folding innermost modules leaves too many rows, the modules around them are folded too.
    """
    if detail is not None:
        return closed_at(roots, detail)
    for fine, most in MOST_ROWS.items():
        closed = closed_at(roots, fine)
        if len(visible(roots, closed)) <= most:
            return closed
    closed = closed_at(roots, "module")
    depths = {b.id: _modules_in(b) for top in roots for b in top.walk() if b.kind == "module"}
    for depth in range(2, max(depths.values(), default=0) + 1):
        if len(visible(roots, closed)) <= MOST_ROWS["function"]:
            break
        closed |= {block for block, height in depths.items() if height <= depth}
    return closed


def visible(siblings: Sequence[Block], closed: frozenset[str]) -> list[Block]:
    """The blocks and rows that are drawn, in order, when some blocks are folded."""
    shown: list[Block] = []
    for block in siblings:
        if block.children and block.id not in closed:
            shown += visible(block.children, closed)
        else:
            shown.append(block)
    return shown
