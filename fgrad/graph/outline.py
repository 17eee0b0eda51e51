"""The repeats in a graph and its compile cost: blocks, the loops behind them, sizes by operation."""

import dis
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

from fgrad.graph.answer import Answer, Table
from fgrad.graph.graph import Graph
from fgrad.graph.repeats import Repeat, repeats
from fgrad.graph.source import Source
from fgrad.graph.text import subgraphs


@frozen
class Block:
    """A block of nodes that occurs ``count`` times in a row.

    Attributes:
      first: the position of the first node of the first block.
      length: how many nodes a block has.
      count: how often it occurs.
      exact: False if the blocks have slices with different starts.
      where: the user's lines of its nodes.
      loop: the line of the Python loop, ``train.py:12``, if it is in the function that runs the operations itself; else
        None.
      operations: the names of the operations of one block, in order.
      inner: the repeats within a block.
    """

    first: int
    length: int
    count: int
    exact: bool
    where: str
    loop: str | None
    operations: tuple[str, ...]
    inner: tuple["Block", ...] = ()

    @property
    def saved(self) -> int:
        """How many nodes are saved by showing the block once."""
        return self.length * (self.count - 1)


_COLUMNS = ("times", "nodes", "lines", "loop", "operations")


@frozen(repr=False)
class Outline(Answer):
    """The repeats in a graph; false if there are none.

    Attributes:
      blocks: the repeated blocks in order; they do not overlap.
      size: how many nodes the graph has.
      outlined: how many it would have with every block once.
    """

    blocks: tuple[Block, ...]
    size: int
    outlined: int

    def findings(self) -> Sequence[Any]:
        return self.blocks

    def parts(self) -> Iterable[str | Table]:
        if not self.blocks:
            yield f"Nothing repeats among the {self.size} operations."
            return
        yield f"{self.size} operations, {self.outlined} where each block stands once:"
        yield Table(_COLUMNS, list(_rows(self.blocks)))


def _rows(blocks: Sequence[Block], depth: int = 0) -> Iterator[tuple[Any, ...]]:
    for block in blocks:
        operations = ", ".join(block.operations[:6]) + (", ..." if len(block.operations) > 6 else "")
        yield "  " * depth + f"x{block.count}", block.length, block.where, block.loop or "", operations
        yield from _rows(block.inner, depth + 1)


def outline(graph: Graph) -> Outline:
    """The repeated blocks of a graph.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> def f(x, ws):
    ...     for w in ws:
    ...         x = jnp.tanh(x @ w)
    ...     return x
    >>> w = jnp.zeros((3, 3))
    >>> report = outline(from_jaxpr(jax.make_jaxpr(f)(w, [w] * 4)))
    >>> [(block.count, block.operations) for block in report.blocks], report.size, report.outlined
    ([(4, ('dot_general', 'tanh'))], 8, 2)
    """
    blocks = tuple([_block(graph, repeat) for repeat in repeats(graph)])
    return Outline(blocks, len(graph), len(graph) - sum([block.saved for block in blocks]))


def _block(graph: Graph, repeat: Repeat) -> Block:
    nodes = graph.nodes[repeat.first : repeat.first + repeat.length]
    sources = [node.source for node in nodes if node.source is not None]
    return Block(
        repeat.first,
        repeat.length,
        repeat.count,
        repeat.exact,
        _where(sources),
        _loop(sources),
        tuple([node.op.name for node in nodes]),
        tuple([_block(graph, inner) for inner in repeat.inner]),
    )


def _where(sources: Sequence[Source]) -> str:
    """The lines of some nodes: ``net.py:12-18 (block)``, the function with most of them."""
    if not sources:
        return ""
    ((code, _),) = Counter([source.code for source in sources]).most_common(1)
    lines = [source.line for source in sources if source.code == code]
    low, high = min(lines), max(lines)
    text = f"{os.path.basename(code.co_filename)}:{low}" + (f"-{high}" if high > low else "")
    return f"{text} ({code.co_name})" + (", derivative" if all(source.of for source in sources) else "")


def _loop(sources: Sequence[Source]) -> str | None:
    """The user's loop around the nodes that its function ran itself."""
    for source in sources:
        around = [line for start, end, line in _loops(source) if start <= source.offset < end]
        if around:
            return f"{os.path.basename(source.file)}:{around[-1]}"
    return None


def _loops(source: Source) -> Iterator[tuple[int, int, int]]:
    """The ``for`` and ``while`` loops of a function, the outer ones first: offsets of the body, and the line.

    A loop ends with a jump back to where it began.
    """
    bodies: dict[int, tuple[int, int]] = {}
    lines: dict[int, int] = {}
    line = source.code.co_firstlineno
    starts = {start: number for start, _, number in source.code.co_lines() if number is not None}
    for instruction in dis.get_instructions(source.code):
        line = starts.get(instruction.offset, line)
        lines[instruction.offset] = line
        target = instruction.argval
        if (
            "JUMP" in instruction.opname
            and isinstance(target, int)
            and target <= instruction.offset
            and target in lines
        ):
            bodies[target] = (max(instruction.offset, bodies.get(target, (0, 0))[0]), lines[target])
    for start in sorted(bodies):
        end, number = bodies[start]
        yield start, end, number


# --------------------------------------------------------------------------------------------------------------------


@frozen(repr=False)
class CompileCost(Answer):
    """How large a program is that XLA will be given, and what of it repeats; false where nothing does.

    Attributes:
      operations: how many operations there are, those within loops and branches once each.
      primitives: how many of each primitive, the most frequent first.
      outline: what repeats.
      within: the same for the graphs inside loops, branches and calls in which something repeats, by the operation
        that holds them.
    """

    operations: int
    primitives: tuple[tuple[str, int], ...]
    outline: Outline
    within: tuple[tuple[str, Outline], ...]

    @property
    def unrolled(self) -> tuple[Block, ...]:
        """The blocks that a Python loop left behind, the most expensive first."""
        blocks = [*self.outline.blocks, *[block for _, inner in self.within for block in inner.blocks]]
        return tuple(sorted(blocks, key=lambda block: -block.saved))

    @property
    def outlined(self) -> int:
        """How many operations there would be if every block were written once."""
        return self.operations - sum([block.saved for block in self.unrolled])

    def findings(self) -> Sequence[Any]:
        return self.unrolled

    def parts(self) -> Iterable[str | Table]:
        yield f"{self.operations:,} operations to compile" + (
            f", {self.outlined:,} if what repeats stood there once" if self.unrolled else "; nothing repeats"
        )
        yield Table(("primitive", "count"), [*self.primitives[:SHOWN_PRIMITIVES]])
        for title, inner in (("", self.outline), *self.within):
            if inner:
                yield Table(_COLUMNS, list(_rows(inner.blocks)), f"repeats{f' in {title}' if title else ''}:")
        if self.unrolled:
            yield (
                "XLA's time grows faster than the number of operations. A loop whose turns do the same compiles once "
                "as jax.lax.scan or jax.lax.fori_loop (stack what differs from turn to turn, such as the layers' "
                "weights)."
            )


#: how many primitives a cost prints
SHOWN_PRIMITIVES = 8


def compile_cost(graph: Graph) -> CompileCost:
    """What compiling a graph will cost, from its structure alone."""
    counts: Counter[str] = Counter()
    within: list[tuple[str, Outline]] = []

    def count(graph: Graph) -> None:
        for node in graph.nodes:
            counts[node.op.name] += 1
            for name, inner in subgraphs(node):
                inner_outline = outline(inner)
                if inner_outline:
                    line = f" ({node.source})" if node.source else ""
                    within.append((f"{name} of {node.op.name}{line}", inner_outline))
                count(inner)

    count(graph)
    return CompileCost(counts.total(), tuple(counts.most_common()), outline(graph), tuple(within))
