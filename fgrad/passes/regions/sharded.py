"""``shard_map``: the derivative of a mapped function is the mapped derivative.

NOTE [What varies and what does not]
A value of which each device holds a part, or its own, varies along an axis of the mesh; of one that does not, all hold
the same.  Where types say so, every operation's operands vary alike: ``pvary`` makes them, and its transpose is a sum
over the devices.  So a cotangent lies on the mesh as its value does, and nothing is left to do at the boundary.
Without these types (``check_vma=False``) a replicated output's cotangent is shared out among the devices that hold it,
and those of a replicated input are added up, as in JAX.

The backward pass keeps the inputs and runs the body again: a body's intermediates have no place outside of it.
"""

import math
from collections.abc import Sequence
from typing import Any

from jax import lax
from jax.sharding import PartitionSpec

from fgrad.graph.graph import Graph, applied, evaluate
from fgrad.graph.op import Op
from fgrad.graph.shards import sharded_graph
from fgrad.jaxcore import typeof
from fgrad.jaxtypes import is_inexact, varying_axes
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PullbackBuilder, tangent_type
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import Region, define


def _named(spec: PartitionSpec) -> list[str]:
    """The axes of the mesh over which a spec shards an array."""
    return [name for entry in spec if entry is not None for name in (entry if isinstance(entry, tuple) else (entry,))]


def _unnamed(op: Op, spec: PartitionSpec) -> tuple[str, ...]:
    """The mapped axes along which the spec replicates."""
    named = _named(spec)
    return tuple([axis for axis in op.params["mesh"].axis_names if axis in op.params["axes"] and axis not in named])


def _body(op: Op, parts: Sequence[Any]) -> Graph:
    """The body for these parts, whose outputs vary wherever their specs let them, as their cotangents do."""
    p = op.params

    def function(*xs: Any) -> list[Any]:
        outs = evaluate(p["body"], xs)
        if not p["check"]:
            return outs
        wider = []
        for x, spec in zip(outs, p["out_specs"], strict=True):
            missing = tuple(
                [axis for axis in _named(spec) if axis in p["axes"] and axis not in varying_axes(typeof(x))]
            )
            wider.append(lax.pcast(x, missing, to="varying") if missing else x)
        return wider

    return stage_closed(function, [typeof(x) for x in parts])


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    p = op.params
    n, m = len(op.in_types), len(op.out_types)
    wrt = [i for i, is_live in enumerate(live) if is_live]
    inexact = [k for k, t in enumerate(op.out_types) if is_inexact(t)]

    def pushed(*flat: Any) -> list[Any]:
        joint = jvp(_body(op, flat[:n]), wrt)
        outs = evaluate(simplify(joint.graph), flat)
        at = joint.results
        return [*outs[:m], *(lax.full_like(outs[k], 0) if (r := at[k]) is None else outs[m + r] for k in inexact)]

    graph = sharded_graph(
        p,
        pushed,
        [*op.in_types, *(tangent_type(op.in_types[i]) for i in wrt)],
        [*p["in_specs"], *(p["in_specs"][i] for i in wrt)],
        [*p["out_specs"], *(p["out_specs"][k] for k in inexact)],
    )
    position = {k: i for i, k in enumerate(inexact)}
    return Local(graph, tuple([position.get(k) for k in range(m)]))


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    p = op.params
    n, m = len(op.in_types), len(op.out_types)
    wrt = [i for i, needed in enumerate(needs) if needed]
    live_outputs = [k for k, is_live in enumerate(live) if is_live]

    def pulled(*flat: Any) -> list[Any]:
        xs, cts = flat[:n], list(flat[n:])
        if not p["check"]:
            for j, k in enumerate(live_outputs):
                holders = math.prod([p["mesh"].shape[axis] for axis in _unnamed(op, p["out_specs"][k])])
                cts[j] = lax.div(cts[j], lax.full_like(cts[j], holders))
        joint = vjp(_body(op, xs), wrt, live)
        outs = evaluate(simplify(joint.graph), [*xs, *cts])[m:]
        summed = []
        for i, r in zip(wrt, joint.results, strict=True):
            ct = lax.full_like(xs[i], 0) if r is None else outs[r]
            axes = _unnamed(op, p["in_specs"][i])
            summed.append(lax.psum(ct, axes) if axes and not p["check"] else ct)
        return summed

    ct_types = [tangent_type(op.out_types[k]) for k in live_outputs]
    graph = sharded_graph(
        p,
        pulled,
        [*op.in_types, *ct_types],
        [*p["in_specs"], *(p["out_specs"][k] for k in live_outputs)],
        [p["in_specs"][i] for i in wrt],
    )
    builder = PullbackBuilder(op, live)
    cts = builder.splice(graph, [*builder.ins, *builder.cotangents.values()])
    return builder.adjoint(applied(op), dict(zip(wrt, cts, strict=True)), needs)


define("shard_map", Region(adjoint=_adjoint, tangents=_tangents))
