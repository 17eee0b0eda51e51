"""Which values of a graph depend differentiably on which inputs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fgrad import errors
from fgrad.graph.graph import Graph, Node
from fgrad.graph.op import Op, Region as RegionPrimitive
from fgrad.graph.source import Source, here
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import is_complex, is_inexact
from fgrad.rules.foreign import has_foreign_rules
from fgrad.rules.kinds import RULES, Linear, OfComplex, Region, Rule, Zero

#: the key in ``RULES`` of the rule shared by all operations with foreign rules
FOREIGN = object()


def of_integers(types: Iterable[ShapedArray]) -> bool:
    """Whether some of these types is not inexact: see NOTE [Integers] of ``vjp``."""
    return not all(map(is_inexact, types))


def rule_of(op: Op) -> Rule:
    """The rule of an operation's primitive.

    Raises:
      MissingRuleError: there is none.
    """
    rule = RULES.get(op.primitive) or RULES.get(op.name)
    if rule is not None:
        return rule
    if has_foreign_rules(op):
        return RULES[FOREIGN]
    raise errors.missing_rule(op.name)


def is_foreign(op: Op) -> bool:
    """Whether an operation has rules of its author's and none of ours."""
    return not (op.name in RULES or op.primitive in RULES) and has_foreign_rules(op)


def is_differentiated_jointly(op: Op) -> bool:
    """Whether an operation is differentiated together with its values, as regions and foreign operations are."""
    return isinstance(op.primitive, RegionPrimitive) or is_foreign(op)


def rule_of_name(name: str) -> Rule | None:
    """The rule defined for a primitive's name, if there is one."""
    return RULES.get(name)


def is_zero(op: Op) -> bool:
    """Whether all derivatives of an operation are zero, by its rule or by its types."""
    zero = op.derived.get("zero")
    if zero is None:
        zero = op.derived["zero"] = _of_integers_only(op) or _has_zero_rule(op)
    return zero


def _has_zero_rule(op: Op) -> bool:
    rule = rule_of(op)
    return isinstance(rule, Zero) or (isinstance(rule, OfComplex) and not any(map(is_complex, op.in_types)))


def _of_integers_only(op: Op) -> bool:
    """Whether none of an operation's inputs, or none of its results, is inexact."""
    return not any(map(is_inexact, op.out_types)) or not any(map(is_inexact, op.in_types))


def at_node(node: Node, function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``; its errors (a refused derivative, an error in a rule) name the node's line."""
    try:
        return function(*args)
    except Exception as error:
        asked = here()
        errors.locate(error, node.source, None if asked is None else Source(*asked))
        raise


def varied_from(graph: Graph, wrt: Sequence[int]) -> set[int]:
    """The inexact values that depend, differentiably, on the values ``wrt``; all that depend on integers."""
    varied = set(wrt)
    exact = of_integers([graph.types[i] for i in wrt])
    for node, outs in graph.numbered():
        op = node.op
        if not varied.isdisjoint(node.inputs) and (exact or not at_node(node, is_zero, op)):
            passed = _passed_on(op, node, varied) if not exact and is_differentiated_jointly(op) else None
            varied.update(
                [
                    number
                    for k, (number, t) in enumerate(zip(outs, op.out_types, strict=True))
                    if exact or (is_inexact(t) and (passed is None or passed[k]))
                ]
            )
    return varied


def _passed_on(op: Op, node: Node, varied: set[int]) -> Sequence[bool] | None:
    """Which outputs of a region depend on its inputs among ``varied``; None if its rule does not say."""
    rule = rule_of(op)
    if not isinstance(rule, Region) or rule.varied is None:
        return None
    key = ("varied", tuple([i in varied for i in node.inputs]))
    passed = op.derived.get(key)
    if passed is None:
        passed = op.derived[key] = at_node(node, rule.varied, op, key[1])
    return passed


def passed_on(op: Op, live: tuple[bool, ...]) -> Sequence[bool]:
    """Which results of an operation have a derivative in its ``live`` inputs; empty if none has."""
    if True not in live:
        return ()
    passed = op.derived.get(("passed on", live))
    if passed is None:
        passed = op.derived["passed on", live] = _results_passed(op, live)
    return passed


def _results_passed(op: Op, live: tuple[bool, ...]) -> Sequence[bool]:
    inexact = [is_inexact(t) for t in op.out_types]
    try:
        rule = rule_of(op)
        if is_zero(op) or (isinstance(rule, Linear) and rule.args is not None and not any(live[i] for i in rule.args)):
            return ()
        if isinstance(rule, Region) and rule.varied is not None:
            return [a and b for a, b in zip(inexact, rule.varied(op, live), strict=True)]
    except Exception:  # a faulty rule raises when the derivative is computed
        pass
    return inexact


def passed_on_by(graph: Graph, wrt: Sequence[int]) -> list[bool]:
    """Which outputs of a graph depend, differentiably, on its inputs ``wrt``."""
    varied = varied_from(graph, wrt)
    return [i in varied for i in graph.outputs]
