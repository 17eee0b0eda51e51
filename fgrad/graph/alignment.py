"""Which values of two graphs correspond, even if nodes were inserted, removed or moved.

NOTE [Alignment]
Values are paired in steps, the most reliable first; a value has at most one partner.

1. The same computation: the same operation on values that are the same computation, down to inputs at the same
   position and equal constants.
2. The same use: the same operation, read by the same ones, up to the same outputs.  This finds values after a change,
   where step 1 finds those before it.
3. In order: equal operations in the same order among the nodes left between two paired ones.
4. In context: an operation changed, but not its readers, or not its operands; or a single node remains on both sides
   and its results have the same types.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher

from fgrad.graph.graph import Graph, Node
from fgrad.graph.repeats import token

#: longer sequences are aligned by the operations that occur once in them
SEQUENCE_LIMIT = 2000


def align(one: Graph, other: Graph) -> tuple[tuple[int, int], ...]:
    """The pairs of values (by number) of two graphs that correspond, in order of the first.

    Inputs correspond by position, as far as their types are equal.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> sine, shifted = [from_jaxpr(jax.make_jaxpr(f)(1.0)) for f in (jnp.sin, lambda x: jnp.sin(x + 1.0))]
    >>> align(sine, shifted)
    ((0, 0), (1, 3))
    """
    return Alignment(one, other).pairs()


class Alignment:
    """The pairing of two graphs; ``partner`` maps values of the first to those of the second."""

    def __init__(self, one: Graph, other: Graph):
        numbers: dict[Hashable, int] = {}
        self.one: _Side = _Side(one, numbers)
        self.other: _Side = _Side(other, numbers)
        self.partner: dict[int, int] = {}
        self.matched: set[int] = set()
        for a, b in zip(range(len(one.in_types)), range(len(other.in_types)), strict=False):
            if one.in_types[a] == other.in_types[b]:
                self._pair(a, b)
        self._by_key(self.one.computations(), self.other.computations())
        uses = self.one.uses(), self.other.uses()
        self._by_key(*[
            [side.number((use, producer)) for use, producer in zip(uses_of_side, side.producer_tokens(), strict=True)]
            for side, uses_of_side in zip((self.one, self.other), uses, strict=True)
        ])  # fmt: skip
        self._in_order()
        self._by_key(*uses)
        self._in_context()

    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(self.partner.items()))

    def _pair(self, a: int, b: int) -> bool:
        if a in self.partner or b in self.matched or self.one.graph.types[a] != self.other.graph.types[b]:
            return False
        self.partner[a] = b
        self.matched.add(b)
        return True

    def _pair_nodes(self, i: int, j: int) -> None:
        for a, b in zip(self.one.outs(i), self.other.outs(j), strict=False):
            self._pair(a, b)

    def _free(self) -> tuple[list[int], list[int]]:
        """The nodes of each side without paired results."""
        one = [i for i in range(len(self.one.nodes)) if not any(v in self.partner for v in self.one.outs(i))]
        other = [j for j in range(len(self.other.nodes)) if not any(v in self.matched for v in self.other.outs(j))]
        return one, other

    def _by_key(self, one: Sequence[int], other: Sequence[int]) -> None:
        """Pair values with equal keys, in order."""
        unpaired: dict[int, list[int]] = defaultdict(list)
        for b in range(len(other) - 1, -1, -1):
            if b not in self.matched:
                unpaired[other[b]].append(b)
        for a, key in enumerate(one):
            if a not in self.partner and unpaired.get(key):
                self._pair(a, unpaired[key].pop())

    def _in_order(self) -> None:
        """Pair equal operations that have the same order between paired nodes."""
        for one, other in self._gaps():
            tokens = [self.one.tokens[i] for i in one], [self.other.tokens[j] for j in other]
            for i, j in _matching(*tokens):
                self._pair_nodes(one[i], other[j])

    def _gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """The unpaired nodes between paired ones that have the same order on both sides."""
        one, other = self._free()
        node_pairs = [(self.one.producer[a], self.other.producer[b]) for a, b in sorted(self.partner.items())]
        ordered = _increasing([j for i, j in node_pairs if i >= 0 and j >= 0])
        anchors = [pair for pair in node_pairs if pair[0] >= 0 and pair[1] >= 0]
        p = q = 0
        for i, j in [*[anchors[k] for k in ordered], (len(self.one.nodes), len(self.other.nodes))]:
            start, begin = p, q
            while p < len(one) and one[p] < i:
                p += 1
            while q < len(other) and other[q] < j:
                q += 1
            if p > start and q > begin:
                yield one[start:p], other[begin:q]

    def _in_context(self) -> None:
        """Pair operations that changed, but not their operands or their neighbours."""
        one, other = self._free()
        candidates: dict[Hashable, list[int]] = defaultdict(list)
        for j in reversed(other):
            node = self.other.nodes[j]
            candidates[node.out_types, tuple([v if v in self.matched else -1 for v in node.inputs])].append(j)
        for i in one:
            node = self.one.nodes[i]
            reads = tuple([self.partner.get(v, -1) for v in node.inputs])
            if max(reads, default=-1) >= 0 and candidates.get((node.out_types, reads)):
                self._pair_nodes(i, candidates[node.out_types, reads].pop())
        for one, other in self._gaps():
            if len(one) == len(other):
                for i, j in zip(one, other, strict=True):
                    if self.one.nodes[i].out_types == self.other.nodes[j].out_types:
                        self._pair_nodes(i, j)


class _Side:
    """A graph with the producers of its values.  Equal things get equal ``numbers``, which both sides share."""

    def __init__(self, graph: Graph, numbers: dict[Hashable, int]):
        self.graph = graph
        self.numbers = numbers
        self.nodes: tuple[Node, ...] = graph.nodes
        first = len(graph.in_types) + len(graph.consts)
        self.firsts: list[int] = [first]
        self.producer: list[int] = [-1] * first
        for i, node in enumerate(graph.nodes):
            self.producer += [i] * len(node.op.out_types)
            self.firsts.append(len(self.producer))
        self.tokens: list[int] = [self.number(token(node.op)) for node in graph.nodes]

    def number(self, key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def producer_tokens(self) -> list[int]:
        """For each value the token of the operation that computes it; -1 for inputs and constants."""
        return [self.tokens[i] if i >= 0 else -1 for i in self.producer]

    def outs(self, i: int) -> range:
        return range(self.firsts[i], self.firsts[i + 1])

    def computations(self) -> list[int]:
        """For each value a number; equal computations have equal numbers."""
        graph, number = self.graph, self.number
        numbers = [number(("input", i, t)) for i, t in enumerate(graph.in_types)]
        numbers += [number(("const", const)) for const in graph.consts]
        for node in graph.nodes:
            computation = number((number(node.op.key), *[numbers[v] for v in node.inputs]))
            numbers += [number(("result", computation, k)) for k in range(len(node.op.out_types))]
        return numbers

    def uses(self) -> list[int]:
        """For each value a number; values that are read in the same way, up to the outputs, have equal numbers.

        That of an unread value is unique.
        """
        number = self.number
        readers: list[list[Hashable]] = [[] for _ in self.graph.types]
        for k, v in enumerate(self.graph.outputs):
            readers[v].append(("output", k))
        numbers = [0] * len(readers)

        def use(v: int) -> int:
            return number(("use", *readers[v]) if readers[v] else ("unread", self, v))

        for i in range(len(self.nodes) - 1, -1, -1):
            for v in self.outs(i):
                numbers[v] = use(v)
            used = number((self.tokens[i], "gives", *[numbers[v] for v in self.outs(i)]))
            for k, v in enumerate(self.nodes[i].inputs):
                readers[v].append((used, k))
        for v in range(self.firsts[0]):
            numbers[v] = use(v)
        return numbers


def _increasing(numbers: Sequence[int]) -> list[int]:
    """The positions of a longest strictly increasing subsequence."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for k, n in enumerate(numbers):
        length = bisect_left(tails, n)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [n]
        ends[length : length + 1] = [k]
    positions = []
    k = ends[-1] if ends else -1
    while k >= 0:
        positions.append(k)
        k = before[k]
    return positions[::-1]


def _matching(one: Sequence[int], other: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Positions of equal items in the same order."""
    if len(one) * len(other) <= SEQUENCE_LIMIT**2:
        for i, j, size in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks():
            yield from zip(range(i, i + size), range(j, j + size), strict=True)
        return
    counts, others = Counter(one), Counter(other)
    positions = {item: j for j, item in enumerate(other)}
    single = [(i, positions[item]) for i, item in enumerate(one) if counts[item] == others[item] == 1]
    yield from [single[k] for k in _increasing([j for _, j in single])]
