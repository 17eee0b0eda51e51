"""Descriptions of the rules by which a graph's operations are differentiated."""

import inspect

from fgrad import errors
from fgrad.graph.graph import Graph
from fgrad.passes.dependence import rule_of
from fgrad.rules.kinds import Undefined, Zero


def rule_texts(graph: Graph) -> dict[str, str]:
    """A description of the rule of each primitive that has one.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> rule_texts(from_jaxpr(jax.make_jaxpr(jnp.floor)(1.0)))
    {'floor': 'Zero, piecewise constant or integer-valued'}
    """
    texts: dict[str, str] = {}
    for node in graph.nodes:
        if node.op.name in texts:
            continue
        try:
            rule = rule_of(node.op)
        except errors.MissingRuleError:
            continue
        kind = type(rule).__name__
        if isinstance(rule, Zero | Undefined):
            texts[node.op.name] = f"{kind}, {rule.reason}"
        else:
            texts[node.op.name] = f"{kind}. {(inspect.getdoc(type(rule)) or '').partition('.')[0]}".replace("\n", " ")
    return texts
