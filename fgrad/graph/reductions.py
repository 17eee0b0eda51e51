"""``lax.reduce`` with a computation of the user's own, written out as a tree of that computation.

What XLA reduces in an order of its own choosing is combined in halves here, in some ``log2(n)`` steps, each of them
differentiated as what it is.  A computation that is one of ``lax.add``, ``lax.mul``, ``lax.max`` and ``lax.min`` stays
a reduction, and so does one of integers, which has no derivative.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from fgrad.graph.graph import Graph, as_declared, evaluate
from fgrad.graph.importing import IMPORTERS, from_jaxpr, staged
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import plain
from fgrad.jaxcore import ShapedArray, primitive
from fgrad.jaxtypes import is_inexact

#: computations of two numbers that have reductions, with rules, of their own
KNOWN = frozenset({"add", "mul", "max", "min"})


def is_known(computation: Graph) -> bool:
    """Whether a computation of two numbers is one operation that has a reduction of its own."""
    return (
        len(computation.in_types) == 2
        and [(node.op.name in KNOWN, {*node.inputs}) for node in computation] == [(True, {0, 1})]
        and computation.outputs == (2,)
    )


def _reduce(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op | Graph:
    computation, function = from_jaxpr(params["jaxpr"]), params["computation"]
    if getattr(lax, getattr(function, "__name__", ""), None) is not function:
        # JAX hands the function on beside its jaxpr, and never calls it; without it equal reductions are equal
        params = {**params, "computation": None}
    op = intern(primitive("reduce"), params, in_types)
    if is_known(computation) or computation.effects or not any(map(is_inexact, in_types)):
        return op
    types = list(map(plain, in_types))

    def in_halves(*args: Any) -> list[Any]:
        # the computation is traced on the initial values, which may be Python numbers
        return list(map(as_declared, _in_halves(computation, args, params["dimensions"]), op.out_types))

    return staged(in_halves, types)


IMPORTERS["reduce"] = _reduce


def _in_halves(computation: Graph, args: Sequence[Any], dimensions: Sequence[int]) -> list[Any]:
    count = len(args) // 2
    shape = args[0].shape
    kept = [i for i in range(len(shape)) if i not in dimensions]
    rest = [shape[i] for i in kept]
    size = math.prod([shape[i] for i in dimensions])
    values = [lax.reshape(lax.transpose(x, [*dimensions, *kept]), (size, math.prod(rest))) for x in args[:count]]

    def combined(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        flat = [lax.reshape(x, (x.size,)) for x in (*left, *right)]
        outs = jax.vmap(lambda *xs: evaluate(computation, xs))(*flat)
        return [lax.reshape(out, x.shape) for out, x in zip(outs, left, strict=True)]

    while size > 1:
        half = size // 2
        left, right = [[x[a : a + half] for x in values] for a in (0, half)]
        joined = combined(left, right)
        values = [lax.concatenate([new, x[2 * half :]], 0) for new, x in zip(joined, values, strict=True)]
        size -= half
    starts = [lax.full((1, math.prod(rest)), x) for x in args[count:]]
    outs = combined(starts, values) if size else starts
    return [lax.reshape(x, rest) for x in outs]
