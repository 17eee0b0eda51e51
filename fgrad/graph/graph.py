"""The immutable graph: numbered values, nodes, inputs, constants and outputs.

Values are numbered by position: first the inputs, then the constants, then every output of every node in order.
Nothing in a graph has a name, so equality and hashing are structural; source lines never take part.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad.graph.checked import Checked
from fgrad.graph.held import held
from fgrad.graph.op import Op, Region, intern
from fgrad.graph.port import NONFINITE
from fgrad.graph.source import Source, standing_at
from fgrad.jaxcore import (
    WIDE,
    ShapedArray,
    Tracer,
    as_typed,
    checks_each_primitive,
    current_trace,
    is_evaluating,
    primitive,
    typeof,
    with_x64,
)

#: what Python and this package call functions with rules of their own that have no name: it says nothing
UNNAMED = frozenset({"<lambda>", "forward", "function"})


@frozen(eq=False)
class Const:
    """A constant of a graph: its value and type; equal when type and bytes are."""

    value: Any
    type: ShapedArray

    @cached_property
    def key(self) -> tuple[Any, ...]:
        if isinstance(self.value, Tracer) or not isinstance(self.type, ShapedArray) or not _is_plain(self.value):
            return (self.type, id(self.value))
        array = np.asarray(self.value)
        # a Python number has 64 bits, whatever its type here
        return (self.type, array.astype(self.type.dtype, copy=False).tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and (
            (other.value is self.value and other.type == self.type) or other.key == self.key
        )

    def __hash__(self) -> int:
        return hash(self.key)

    @staticmethod
    def of(value: Any) -> "Const":
        return Const.typed(value, typeof(value))

    @staticmethod
    def typed(value: Any, type: ShapedArray) -> "Const":
        """A constant whose value stays of its type: without the flag NumPy's 64-bit numbers count as narrower."""
        if isinstance(value, np.ndarray | np.generic) and value.dtype != type.dtype:
            value = value.astype(type.dtype)
        return Const(value, type)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, jax.Array) or (
        not jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended) and value.is_fully_addressable
    )


@frozen(eq=False)
class Node:
    """One operation of a graph: what it does, the numbers of the values it reads, and the user's line it came from."""

    op: Op
    inputs: tuple[int, ...]
    source: Source | None = None

    @property
    def primitive(self) -> Any:
        return self.op.primitive

    @property
    def params(self) -> dict[str, Any]:
        return self.op.params

    @property
    def out_types(self) -> tuple[ShapedArray, ...]:
        return self.op.out_types

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Node)
            and self.inputs == other.inputs
            and (self.op is other.op or self.op.key == other.op.key)
        )

    def __hash__(self) -> int:
        return hash((self.op.key_hash, self.inputs))


@frozen(eq=False)
class Graph:
    """A pure function as data: ``in_types``, constants, nodes, and the numbers of its outputs.

    Graphs are equal when they do the same operations in the same order on the same constants, whatever the
    source lines were.  Calling one runs it on flat values.
    """

    in_types: tuple[ShapedArray, ...]
    consts: tuple[Const, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    @cached_property
    def types(self) -> tuple[ShapedArray, ...]:
        """The type of every value, by number."""
        types = [*self.in_types, *[const.type for const in self.consts]]
        for node in self.nodes:
            types += node.op.out_types
        return tuple(types)

    @property
    def out_types(self) -> tuple[ShapedArray, ...]:
        return tuple(map(self.types.__getitem__, self.outputs))

    @cached_property
    def wide(self) -> bool:
        """Whether any value has 64 bits, so that JAX's flag must be on while the graph runs."""
        return any(t.dtype in WIDE for t in self.types)

    @cached_property
    def effects(self) -> bool:
        """Whether any node must run for its effect (a debug print, a callback)."""
        return any(node.op.effects for node in self.nodes)

    @cached_property
    def held(self) -> int:
        """The bytes of its constants and of what its operations keep alive: NOTE [Rules that hold arrays]."""
        return held([const.value for const in self.consts]) + sum([node.op.held for node in self.nodes])

    @cached_property
    def has_regions(self) -> bool:
        """Whether any node holds graphs itself."""
        return any(isinstance(node.op.primitive, Region) for node in self.nodes)

    @cached_property
    def closing(self) -> frozenset[int]:
        """The positions of the nodes whose own graphs have tracers among their constants."""
        if not self.has_regions:
            return frozenset()
        return frozenset([i for i, node in enumerate(self.nodes) if any(map(_closes_over_tracers, graphs_of(node.op)))])

    @cached_property
    def sourced(self) -> bool:
        """Whether any node has a line of its own."""
        return any(node.source is not None for node in self.nodes)

    @cached_property
    def _hash(self) -> int:
        return hash((self.in_types, self.consts, self.nodes, self.outputs))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Graph)
            and self._hash == other._hash
            and self.in_types == other.in_types
            and self.outputs == other.outputs
            and self.consts == other.consts
            and self.nodes == other.nodes
        )

    @cached_property
    def lines(self) -> tuple[Any, ...]:
        """What tells the user's lines in this graph from those in an equal one, while the graph lives."""
        # by identity: a code object's own hash goes through all of it
        return tuple(
            [
                (id(node.source.code), node.source.offset, id(node.op)) if node.source is not None else None
                for node in self.nodes
            ]
        )

    def numbered(self) -> Iterator[tuple[Node, range]]:
        """Each node with the numbers of the values that it makes."""
        number = len(self.in_types) + len(self.consts)
        for node in self.nodes:
            outs = range(number, number + len(node.op.out_types))
            yield node, outs
            number = outs.stop

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)


class Builder:
    """Grows a graph node by node; the passes write into one.  Constants equal in type and bytes are entered once.

    A builder numbers its values in order of arrival; ``finish`` renumbers them to the graph's order.
    """

    def __init__(self, in_types: Sequence[ShapedArray] = ()):
        self.types: list[ShapedArray] = list(in_types)
        self.inputs: list[int] = list(range(len(self.types)))
        self.consts: dict[int, Const] = {}
        self._const_of: dict[Const, int] = {}
        self.steps: list[tuple[int, Op, tuple[int, ...], Source | None]] = []

    def input(self, type: ShapedArray) -> int:
        self.inputs.append(len(self.types))
        self.types.append(type)
        return self.inputs[-1]

    def const(self, const: Const) -> int:
        number = self._const_of.get(const)
        if number is None:
            number = self._const_of[const] = len(self.types)
            self.consts[number] = const
            self.types.append(const.type)
        return number

    def emit(self, op: Op, inputs: tuple[int, ...], source: Source | None = None) -> int:
        """Append a node; the number of its first output (the others follow)."""
        number = len(self.types)
        self.steps.append((number, op, inputs, source))
        self.types += op.out_types
        return number

    def splice(
        self, graph: "Graph", args: Sequence[int], source: Source | None = None, otherwise: Source | None = None
    ) -> list[int]:
        """Append a copy of ``graph`` applied to values of this builder; the numbers of its outputs.

        ``source``, where given, becomes the line of every node spliced in, which keeps its ``jax.named_scope``;
        ``otherwise`` is the line of nodes without one.
        """
        numbers = [*args, *map(self.const, graph.consts)]
        for node in graph.nodes:
            inputs = tuple(map(numbers.__getitem__, node.inputs))
            inner = node.source
            if inner is not None and source is not None:
                inner = source.around(inner.module)
            first = self.emit(node.op, inputs, inner or source or otherwise)
            numbers += range(first, first + len(node.op.out_types))
        return list(map(numbers.__getitem__, graph.outputs))

    def finish(self, outputs: Sequence[int], inputs: Sequence[int] | None = None) -> Graph:
        """The graph of what is needed for ``outputs`` (effects included): dead nodes and constants are left out."""
        inputs = self.inputs if inputs is None else inputs
        alive = bytearray(len(self.types))
        for i in outputs:
            alive[i] = 1
        kept: list[tuple[int, Op, tuple[int, ...], Source | None]] = []
        for step in reversed(self.steps):
            first, op, args, _ = step
            if op.effects or 1 in alive[first : first + len(op.out_types)]:
                for i in args:
                    alive[i] = 1
                kept.append(step)
        kept.reverse()
        consts = self._used_consts(kept, outputs) if self.consts else []
        new = dict(zip([*inputs, *consts], itertools.count()))
        count = len(new)
        nodes = []
        for first, op, args, source in kept:
            nodes.append(Node(op, tuple(map(new.__getitem__, args)), source))
            for i in range(first, first + len(op.out_types)):
                new[i] = count
                count += 1
        return Graph(
            tuple(map(self.types.__getitem__, inputs)),
            tuple(map(self.consts.__getitem__, consts)),
            tuple(nodes),
            tuple(map(new.__getitem__, outputs)),
        )

    def _used_consts(self, steps: Sequence[tuple[int, Op, tuple[int, ...], Any]], outputs: Sequence[int]) -> list[int]:
        """The constants that some steps read, in the order of their first use: it does not matter when each came."""
        read = [*[i for _, _, args, _ in steps for i in args], *outputs]
        return [i for i in dict.fromkeys(read) if i in self.consts]


def evaluate(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Run a graph node by node under the current trace, dropping each value after its last use."""
    if graph.wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        return with_x64(evaluate, graph, narrowed(graph, args))
    values: list[Any] = [*args, *(const.value for const in graph.consts)]
    values += [None] * (len(graph.types) - len(values))
    number = len(args) + len(graph.consts)
    node: Any = None
    bound: Any = _traced
    if is_evaluating(current_trace()):
        bound = Checked(_run_at_once, args) if checks_each_primitive() else _run_at_once
    try:
        for node, dead in zip(graph.nodes, last_uses(graph), strict=True):
            for out in bound(node, [values[i] for i in node.inputs]):
                values[number] = out
                number += 1
            for i in dead:
                values[i] = None
    except FloatingPointError as error:  # jax_debug_nans or jax_debug_infs
        NONFINITE.call(error, graph, args, node)
        raise
    if bound is not _traced:
        results = [values[i] for i in graph.outputs]
        if bound is not _run_at_once and (at_fault := bound.error_of(results)) is not None:
            node, error = at_fault
            NONFINITE.call(error, graph, args, node)
            raise error
        return results
    return [as_declared(values[i], graph.types[i]) for i in graph.outputs]


def as_declared(value: Any, type: Any) -> Any:
    """A result, weakly typed where the graph says so: a rule for Python numbers may run on tangents that are arrays."""
    if not isinstance(value, jax.Array) or typeof(value).weak_type == type.weak_type:
        return value
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return primitive("convert_element_type").bind(value, **params)


def _run_at_once(node: Node, args: Sequence[Any]) -> Sequence[Any]:
    """Run a node on values, in the scope that it was recorded in."""
    source = node.source
    if source is None or not source.module:
        return node.op.bind(args)
    with jax.named_scope(source.scope):
        return node.op.bind(args)


def _traced(node: Node, args: Sequence[Any]) -> Sequence[Any]:
    """Bind a node at the line and in the scope where it was recorded, so that JAX keeps the user's lines and names."""
    source = node.source
    if source is None:
        return node.op.bind(args)
    if not source.module:
        return standing_at(source)(lambda: node.op.bind(args))
    with jax.named_scope(source.scope):
        return standing_at(source)(lambda: node.op.bind(args))


def applied(op: Op) -> Graph:
    """The graph of one operation, applied to its inputs."""
    builder = Builder(op.in_types)
    first = builder.emit(op, tuple(builder.inputs))
    return builder.finish(range(first, first + len(op.out_types)))


def graphs_of(op: Op) -> list[Graph]:
    """The graphs among an operation's parameters."""
    values = itertools.chain(*[x if isinstance(x, tuple) else (x,) for x in op.params.values()])
    return [x for x in values if isinstance(x, Graph)]


def _closes_over_tracers(graph: Graph) -> bool:
    return bool(graph.closing) or any(isinstance(const.value, Tracer) for const in graph.consts)


def unsourced(graph: Graph) -> Graph:
    """The same graph without lines."""
    nodes = tuple([Node(node.op, node.inputs) for node in graph.nodes])
    return Graph(graph.in_types, graph.consts, nodes, graph.outputs)


def labelled(graph: Graph, name: str) -> Graph:
    """The graph in which functions without a name of their own have this one."""
    if not any(node.op.params.get("label") in UNNAMED for node in graph.nodes):
        return graph
    nodes = [
        Node(intern(node.op.primitive, {**node.op.params, "label": name}, node.op.in_types), node.inputs, node.source)
        if node.op.params.get("label") in UNNAMED
        else node
        for node in graph.nodes
    ]
    return Graph(graph.in_types, graph.consts, tuple(nodes), graph.outputs)


def narrowed(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Arguments with NumPy's 64-bit arrays as JAX takes them without its flag: of the types of the graph's inputs."""
    return [
        np.asarray(x, t.dtype) if isinstance(x, np.ndarray) else as_typed(x)
        for x, t in zip(args, graph.in_types, strict=True)
    ]


def last_uses(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """For each node, the values that no later node and no output needs."""
    seen = set(graph.outputs)
    uses: list[tuple[int, ...]] = []
    for node in reversed(graph.nodes):
        dead = tuple([i for i in set(node.inputs) if i not in seen])
        seen.update(dead)
        uses.append(dead)
    uses.reverse()
    return tuple(uses)
