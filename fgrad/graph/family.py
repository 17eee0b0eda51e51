"""The graphs of one function of arrays for all sizes of its operands, made from one recording.

NOTE [Families of graphs]
JAX's functions take arrays whose sizes are symbols (``jax.export.symbolic_shape``), and raise an error where what they
do depends on more than the bounds of a symbol.  Two symbols count as different.  So a function that can be recorded on
symbols does the same operations for all numbers in their place that are within bounds and differ from each other, and
its graph for these is the symbolic one with the numbers put in.  That takes a tenth of the time of recording it.

A number of elements, by which a mean is divided, is an operation of the symbolic graph and a constant of the others.

The rules of custom functions are recorded when they are used.  One that turns out to depend on the sizes then is that
of the graph recorded for these numbers: the rule at the same place there.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from jax.export import symbolic_shape

from fgrad.graph.graph import Builder, Const, Graph, Node
from fgrad.graph.op import Op, Region, intern, intern_typed
from fgrad.graph.regions import Deferred, DeferredByZeros, VjpRule
from fgrad.graph.source import function_of
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import explicit_sharding, varying_axes

#: the names of the symbols
NAMES = "abcdefgh"
#: the numbers in the place of one: small sizes are often those of a kernel, and larger ones are indexed differently
SMALLEST, LARGEST = 8, (1 << 31) - 1
#: how many rules of custom functions have their families kept
FAMILIES_KEPT = 1 << 12


class NoFamilyError(Exception):
    """A graph has something in which symbols cannot be replaced."""


@cache
def symbols() -> tuple[Any, ...]:
    """Symbolic sizes from ``SMALLEST`` to ``LARGEST``."""
    bounds = [f"{name} >= {SMALLEST}" for name in NAMES] + [f"{name} <= {LARGEST}" for name in NAMES]
    return tuple(symbolic_shape(", ".join(NAMES), constraints=bounds))


class Member:
    """The numbers in the place of the symbols, the sizes and types that follow, and what records the graph for them."""

    __slots__ = ("numbers", "sizes", "types", "record")

    def __init__(
        self, numbers: tuple[int, ...], sizes: Sequence[Any], types: list[ShapedArray], record: Callable[[], Graph]
    ):
        self.numbers: tuple[int, ...] = numbers
        self.sizes: Sequence[Any] = sizes
        self.types: list[ShapedArray] = types
        self.record: Callable[[], Graph] = record


#: what makes a value of a member, from its numbers
Make = Callable[[Member], Any]


class Family:
    """A graph on symbolic sizes, and with numbers in their place."""

    __slots__ = ("graph", "counts", "_make", "_sizes", "_types")

    def __init__(self, graph: Graph):
        self.graph: Graph = graph
        writer = _Writer()
        self._make: Make = writer.graph(graph)
        #: whether numbers of elements become constants
        self.counts: bool = writer.counts
        #: the types of all values, those without symbols as they are
        self._types: list[ShapedArray] = [*writer.types]
        #: from the numbers to all sizes, and to the numbers, shapes, dtypes and weakness of the types with symbols
        self._sizes: Callable[[Sequence[int]], tuple[Sequence[int], Sequence[Any]]] = writer.sizes()

    def member(self, numbers: tuple[int, ...], record: Callable[[], Graph]) -> Graph:
        """The graph with numbers in the place of the first symbols; ``record`` records it for them."""
        sizes, shapes = self._sizes((*numbers, *(0,) * (len(NAMES) - len(numbers))))
        types = self._types.copy()
        for i, shape in shapes:
            types[i] = ShapedArray(shape, types[i].dtype, weak_type=types[i].weak_type)
        return self._make(Member(numbers, sizes, types, record))


@lru_cache(FAMILIES_KEPT)
def _family_of(graph: Graph) -> Family:
    return Family(graph)


class _Writer:
    """Collects the sizes and types of a symbolic graph, and writes how the graph is made from them."""

    def __init__(self) -> None:
        self.expressions: dict[str, int] = {}
        self.types: dict[ShapedArray, int] = {}
        self.counts: bool = False
        #: the rules, in the order of ``_rules_in``
        self.rules: list[Deferred] = []

    def sizes(self) -> Callable[[Sequence[int]], tuple[Sequence[int], Sequence[Any]]]:
        """The function of the numbers that computes all sizes and the shapes with symbols in them."""
        shapes = [
            f"({i}, ({''.join(f'{_source(n)}, ' for n in type.shape)}))"
            for type, i in self.types.items()
            if any(map(is_symbolic, type.shape))
        ]
        lines = [
            "def run(numbers):",
            f"    {', '.join(NAMES)} = numbers",
            f"    return [{', '.join(self.expressions)}], [{', '.join(shapes)}]",
        ]
        scope = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}
        return function_of(lines, scope, "sizes")

    def size(self, size: Any) -> int:
        return self.expressions.setdefault(_source(size), len(self.expressions))

    def type(self, type: Any) -> int:
        if type.__class__ is not ShapedArray or explicit_sharding(type) is not None or varying_axes(type):
            raise NoFamilyError(type)
        return self.types.setdefault(type, len(self.types))

    def graph(self, graph: Graph) -> Make:
        """How a graph is made."""
        in_types = [self.type(t) for t in graph.in_types]
        count = len(in_types)
        #: the constants, and what makes those that are numbers of elements, by their numbers in the symbolic graph
        consts: dict[int, Const | Make] = dict(enumerate(graph.consts, count))
        folded: dict[int, tuple[Make, int]] = {}
        nodes: list[tuple[Node, range]] = []
        for node, outs in graph.numbered():
            if all(i in folded for i in node.inputs) and (fold := self._folded(node, folded)) is not None:
                type = self.type(node.op.out_types[0])
                folded[outs[0]] = fold, type
                consts[outs[0]] = lambda member, fold=fold, type=type: Const.typed(
                    np.asarray(fold(member), member.types[type].dtype), member.types[type]
                )
            else:
                nodes.append((node, outs))
        read = [*[i for node, _ in nodes for i in node.inputs], *graph.outputs]
        used = [i for i in dict.fromkeys(read) if i in consts]
        numbers = {i: i for i in range(count)} | {i: k for k, i in enumerate(used, count)}
        steps = []
        for node, outs in nodes:
            steps.append((self._op(node.op), tuple([numbers[i] for i in node.inputs])))
            for i in outs:
                numbers[i] = len(numbers)
        outputs = tuple([numbers[i] for i in graph.outputs])
        kept = [consts[i] for i in used]
        is_made = any(not isinstance(const, Const) for const in kept)

        def make(member: Member) -> Graph:
            types = member.types
            made = tuple([x if isinstance(x, Const) else x(member) for x in kept])
            made_nodes = tuple([Node(op if op.__class__ is Op else op(member), inputs) for op, inputs in steps])
            new = Graph(tuple([types[i] for i in in_types]), made, made_nodes, outputs)
            return _without_repeats(new) if is_made and len(set(made)) < len(made) else new

        return make

    def _folded(self, node: Node, known: dict[int, tuple[Make, int]]) -> Make | None:
        """How a number of elements, or what follows from it, is computed."""
        op = node.op
        if op.name == "dim_as_value":
            size = self.size(op.params["dim"])
            self.counts = True
            return lambda member: member.sizes[size]
        function = _FOLDED.get(op.name)
        if function is None or not node.inputs:
            return None
        operands, dtype = [known[i][0] for i in node.inputs], op.out_types[0].dtype
        return lambda member: function(*[operand(member) for operand in operands]).astype(dtype)

    def _op(self, op: Op) -> Op | Make:
        """An operation without symbols, or how it is made."""
        if op.effects or op.mesh is not None:
            raise NoFamilyError(op)
        static: dict[str, Any] = {}
        made: dict[str, Make] = {}
        for name, value in op.params.items():
            make = self._value(value)
            if make is None:
                static[name] = value
            else:
                made[name] = make
        symbolic = [*op.in_types, *op.out_types]
        if not made and not any(is_symbolic(n) for t in symbolic for n in t.shape):
            return op
        primitive, in_types, out_types = (
            op.primitive,
            *[[self.type(t) for t in ts] for ts in (op.in_types, op.out_types)],
        )

        def make_op(member: Member) -> Op:
            types = member.types
            params = {**static, **{name: make(member) for name, make in made.items()}}
            ins = tuple([types[i] for i in in_types])
            if isinstance(primitive, Region):
                return intern(primitive, params, ins)
            return intern_typed(primitive, params, ins, tuple([types[i] for i in out_types]), False)

        return make_op

    def _value(self, value: Any) -> Make | None:
        """How a parameter is made; None for one without symbols."""
        if is_symbolic(value):
            size = self.size(value)
            return lambda member: member.sizes[size]
        if isinstance(value, tuple):
            items = [self._value(x) for x in value]
            if all(item is None for item in items):
                return None
            if type(value) is not tuple:
                raise NoFamilyError(value)
            pairs = [*zip(value, items, strict=True)]
            return lambda member: tuple([x if item is None else item(member) for x, item in pairs])
        if isinstance(value, Graph):
            return self.graph(value)
        if isinstance(value, Deferred):
            self.rules.append(value)
            return _rule(value, self.rules, len(self.rules) - 1)
        return None


def _rule(rule: Deferred, rules: Sequence[Deferred], place: int) -> Make:
    """How the rule of a custom function is made, that at a place among those of the symbolic graph."""
    if rule.native is not None or rule.num_tokens:
        raise NoFamilyError(rule)

    def make(member: Member) -> Deferred:
        numbers, record = member.numbers, member.record

        def recorded() -> Deferred:
            found = [*_rules_in(record())]
            if len(found) != len(rules):
                raise NoFamilyError(rule)
            return found[place]

        new = Deferred((rule.key, numbers), lambda: _rule_of(rule, lambda: recorded()(), numbers))
        if not isinstance(rule, DeferredByZeros):
            return new
        return DeferredByZeros(new, lambda live: _rule_of(lambda: rule.of(live), lambda: recorded().of(live), numbers))

    return make


def _rule_of(symbolic: Callable[[], Any], record: Callable[[], Any], numbers: tuple[int, ...]) -> Any:
    """A rule, made from the symbolic one, or recorded for the numbers if that depends on the sizes."""
    try:
        rule = symbolic()
        families = [_family_of(graph) for graph in _graphs_of(rule)]
    except Exception:
        return record()
    members = [family.member(numbers, lambda k=k: _graphs_of(record())[k]) for k, family in enumerate(families)]
    return VjpRule(members[0], members[1], rule.wrt) if isinstance(rule, VjpRule) else members[0]


def _graphs_of(rule: Any) -> tuple[Graph, ...]:
    return (rule.forward, rule.backward) if isinstance(rule, VjpRule) else (rule,)


def _rules_in(value: Any) -> Iterator[Deferred]:
    """The rules in a graph, those in the graphs of its operations included."""
    if isinstance(value, Deferred):
        yield value
    elif isinstance(value, Graph):
        for node in value.nodes:
            yield from _rules_in(tuple(node.op.params.values()))
    elif isinstance(value, tuple):
        for item in value:
            yield from _rules_in(item)


def _without_repeats(graph: Graph) -> Graph:
    """The graph with equal constants entered once, as in one that is recorded."""
    builder = Builder(graph.in_types)
    return builder.finish(builder.splice(graph, builder.inputs))


#: how constants are computed from numbers of elements
_FOLDED: dict[str, Callable[..., Any]] = {
    "convert_element_type": np.asarray,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}


def is_symbolic(size: Any) -> bool:
    """Whether a size has symbols in it."""
    return size.__class__ is symbols()[0].__class__


def _source(size: Any) -> str:
    """A size as Python writes it."""
    return f"({size})".replace("^", "**") if is_symbolic(size) else repr(int(size))
