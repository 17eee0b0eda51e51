"""Calls with their own batching rule: they are differentiated as the plain calls that they are."""

from fgrad.graph.graph import Builder
from fgrad.graph.op import Op
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, tangent_type
from fgrad.passes.vjp import vjp
from fgrad.rules.kinds import Region, define


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    joint = jvp(op.params["call"], [i for i, yes in enumerate(live) if yes])
    return Local(joint.graph, joint.results)


def plain_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    """The forward pass keeps the call, so that its batching rule holds; what the backward pass reads is made again."""
    n, m = len(op.in_types), len(op.out_types)
    kept = Builder(op.in_types)
    first = kept.emit(op, tuple(kept.inputs))
    joint = vjp(op.params["call"], [i for i, yes in enumerate(needs) if yes], live)
    cts = [tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes]
    builder = Builder([*op.in_types, *op.out_types, *cts])
    found = builder.splice(joint.graph, [*builder.inputs[:n], *builder.inputs[n + m :]])
    return Adjoint(kept.finish(range(first, first + m)), builder.finish(found[m:]), joint.results)


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    return passed_on_by(op.params["call"], [i for i, yes in enumerate(needs) if yes])


define("custom_vmap", Region(adjoint=plain_adjoint, tangents=_tangents, varied=_varied))
