"""Whether two graphs differ only in the functions to which their custom rules belong.

A call with a custom rule is identified by its function, since a rule may do what no graph shows.  So a program written
out as source has another graph, though each of its calls and rules records to the same operations.
"""

from collections.abc import Sequence
from typing import Any

from fgrad.graph.graph import Graph
from fgrad.graph.op import Op
from fgrad.graph.regions import CustomJvp, CustomVjp, Deferred, VjpRule
from fgrad.jaxtypes import is_inexact


def ruled_alike(one: Graph, other: Graph) -> tuple[str, ...] | None:
    """The names of functions that differ but have equal rules, if two graphs differ in nothing else; else None.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> def squared():
    ...     square = jax.custom_jvp(lambda x: x * x)
    ...     square.defjvp(lambda x, t: (square(*x), 2.0 * x[0] * t[0]))
    ...     return from_jaxpr(jax.make_jaxpr(square)(1.0))
    >>> one, other = squared(), squared()
    >>> one == other, ruled_alike(one, other)
    (False, ('<lambda>',))
    """
    comparison = _Comparison()
    return tuple(dict.fromkeys(comparison.labels)) if comparison.graphs(one, other) else None


def calls_alike(one: Graph, other: Graph) -> bool:
    """Whether two graphs compute the same by the same operations, whatever rules the functions in them have."""
    return _ComparisonOfCalls().graphs(one, other)


def operations_alike(one: Op, other: Op) -> bool:
    """Whether two operations are equal up to the functions that own the custom rules in them."""
    return _Comparison().operations(one, other)


class _Comparison:
    """A comparison, including the graphs of regions and of rules."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        #: pairs of rules whose comparison has started: a rule may call its own function
        self.seen: set[tuple[Any, Any]] = set()

    def graphs(self, one: Graph, other: Graph) -> bool:
        if one == other:
            return True
        parts = [(x.in_types, x.consts, x.outputs, [node.inputs for node in x.nodes]) for x in (one, other)]
        ops = zip(one.nodes, other.nodes, strict=False)
        return parts[0] == parts[1] and all(self.operations(a.op, b.op) for a, b in ops)

    def operations(self, one: Op, other: Op) -> bool:
        if one.key == other.key:
            return True
        if (one.name, one.in_types, one.out_types) != (other.name, other.in_types, other.out_types):
            return False
        if one.params.keys() != other.params.keys():
            return False
        pairs = [(name, one.params[name], other.params[name]) for name in one.params if name not in ("rule", "label")]
        if not all(self._values(a, b) for _, a, b in pairs):
            return False
        if "rule" not in one.params or one.params["rule"] == other.params["rule"]:
            return True
        return isinstance(one.primitive, CustomJvp | CustomVjp) and self._rules(one, other)

    def _values(self, one: Any, other: Any) -> bool:
        if isinstance(one, Graph) and isinstance(other, Graph):
            return self.graphs(one, other)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return len(one) == len(other) and all(map(self._values, one, other))
        return one == other

    def _rules(self, one: Op, other: Op) -> bool:
        rules = one.params["rule"], other.params["rule"]
        if rules in self.seen:
            return True
        self.seen.add(rules)
        self.labels.append(one.params["label"])
        try:
            graphs = [self._graphs_of(op, rule) for op, rule in zip((one, other), rules, strict=True)]
        except Exception:  # a rule that cannot be recorded
            return False
        return all(map(self.graphs, *graphs))

    @staticmethod
    def _graphs_of(op: Op, rule: Deferred) -> Sequence[Graph]:
        """The graphs of a rule, with everything live."""
        arguments = [is_inexact(type) for type in op.in_types[op.params["num_consts"] :]]
        if isinstance(op.primitive, CustomJvp):
            return [rule.of((True,) * sum(arguments))]
        vjp_rule: VjpRule = rule.of((*arguments, *map(is_inexact, op.out_types)))
        return [vjp_rule.forward, vjp_rule.backward]


class _ComparisonOfCalls(_Comparison):
    """A comparison that does not record the rules."""

    def _rules(self, one: Op, other: Op) -> bool:
        return True
