"""Merging rows of bookkeeping with the operation that they serve.

NOTE [Bookkeeping]
``x[i]`` is recorded as a comparison of ``i`` with 0, a sum, a selection and a reshape, all for one ``gather``, and
``x + b`` broadcasts ``b`` first.  A row is merged with its only reader if both have the same source line, the value
between them has no name, and one of the two is bookkeeping: it has only integers, or it only reshapes.
"""

from collections.abc import Sequence

from attrs import evolve

from fgrad.graph.drawing.ladder import Ladder, Row
from fgrad.graph.graph import Graph
from fgrad.jaxtypes import is_inexact

#: operations that only reshape their operand
SHAPING = frozenset({"broadcast_in_dim", "copy", "expand_dims", "reshape", "squeeze"})


def counts_only(graph: Graph, node: int, outs: Sequence[int]) -> bool:
    """Whether a node has only integers and booleans: indices, masks, or the bits of random numbers."""
    return not any(is_inexact(graph.types[i]) for i in (*graph.nodes[node].inputs, *outs))


def joined(ladder: Ladder) -> Ladder:
    """The ladder with bookkeeping merged into the rows that it serves: see NOTE [Bookkeeping]."""
    readers = _Readers(ladder)
    rows = list(ladder.rows)
    for r in reversed(range(len(rows))):
        other = readers.only_reader(r)
        if other is not None and (readers.bookkeeping(rows[r]) or readers.shaping(rows[other])):
            rows[other] = _merged(ladder, rows[r], rows[other])
            readers.into[r] = other
    return evolve(ladder, rows=tuple([row for r, row in enumerate(rows) if r not in readers.into]))


class _Readers:
    """The readers of a ladder's values, and the rows that have been merged into others."""

    def __init__(self, ladder: Ladder):
        self.ladder = ladder
        self.into: dict[int, int] = {}
        self.results = {pair.value for pair in ladder.results} | {pair.partner for pair in ladder.arguments}
        self.readers: dict[int, set[int]] = {}
        for r, row in enumerate(ladder.rows):
            for i in [i for k in (*row.forward, *row.backward) for i in ladder.graph.nodes[k].inputs]:
                self.readers.setdefault(i, set()).add(r)

    def only_reader(self, r: int) -> int | None:
        """The only reader, on the same line, of a row whose results have no names."""
        ladder = self.ladder
        produced = [i for k in ladder.rows[r].forward for i in ladder.outs[k]]
        where = {self.into.get(reader, reader) for i in produced for reader in self.readers.get(i, ())} - {r}
        if len(where) != 1 or not all(i not in self.results and ladder.names[i].startswith("%") for i in produced):
            return None
        (reader,) = where
        return reader if reader > r and self._line(r) in (None, self._line(reader)) else None

    def bookkeeping(self, row: Row) -> bool:
        ladder = self.ladder
        counts = all(counts_only(ladder.graph, k, ladder.outs[k]) for k in row.forward)
        return (counts and not row.backward) or self.shaping(row)

    def shaping(self, row: Row) -> bool:
        """Whether the operations of a row only reshape or change the weakness of a type."""
        nodes, types = self.ladder.graph.nodes, self.ladder.graph.types
        return all(
            nodes[k].op.name in SHAPING
            or (
                nodes[k].op.name == "convert_element_type"
                and types[nodes[k].inputs[0]].dtype == types[self.ladder.outs[k][0]].dtype
            )
            for k in row.forward
        )

    def _line(self, row: int) -> tuple[object, int] | None:
        """The user's line of a row."""
        nodes = self.ladder.graph.nodes
        sources = [source for k in self.ladder.rows[row].forward if (source := nodes[k].source) is not None]
        return (sources[0].code, sources[0].line) if sources else None


def _merged(ladder: Ladder, first: Row, second: Row) -> Row:
    """Two rows as one; a cotangent that the second passes to the first goes where the first passes it."""
    produced = {i for k in first.forward for i in ladder.outs[k]}
    passes = [j for i in second.passes for j in (first.passes if i in produced else (i,))]
    return Row(
        tuple(sorted((*first.forward, *second.forward))),
        tuple(sorted((*first.backward, *second.backward))),
        tuple(dict.fromkeys(passes)),
    )
