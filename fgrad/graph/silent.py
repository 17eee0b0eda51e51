"""Regions without the prints and checks in them.

NOTE [Prints in regions]
A print, or a check of ``checkify``, in the body of a loop or branch gives nothing back, so the body computes the same
without it.  Where a region runs while it is recorded, it prints and checks then, and what is recorded is the region
without them: a derivative goes through it, and nothing is printed twice.
"""

from typing import Any

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern

_PRINTS = frozenset({"debug_callback", "debug_print", "check"})


def without_prints(op: Op) -> Op | None:
    """The region whose bodies print nothing; None for an operation that does more than print.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> def loop(x):
    ...     return jax.lax.fori_loop(0, 3, lambda i, y: (jax.debug.print("{}", y), jnp.sin(y))[1], x)
    >>> op = from_jaxpr(jax.make_jaxpr(loop)(1.0)).nodes[-1].op
    >>> silent = without_prints(op)
    >>> op.effects, silent.name, silent.effects
    (True, 'scan', False)
    """
    if not op.effects:
        return op
    params = {name: _without_prints(value) for name, value in op.params.items()}
    if all(params[name] is value for name, value in op.params.items()):
        return None
    printless = intern(op.primitive, params, op.in_types)
    return None if printless.effects else printless


def _without_prints(value: Any) -> Any:
    """A parameter of a region: a graph, several, or anything else."""
    if type(value) is tuple and any(isinstance(each, Graph) for each in value):
        return tuple([_without_prints(each) for each in value])
    if not isinstance(value, Graph) or not value.effects:
        return value
    builder = Builder(value.in_types)
    numbers = [*builder.inputs, *map(builder.const, value.consts)]
    for node, outs in value.numbered():
        if node.op.name in _PRINTS:
            continue
        at = builder.emit(without_prints(node.op) or node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        numbers += range(at, at + len(outs))
    return builder.finish([numbers[i] for i in value.outputs])
