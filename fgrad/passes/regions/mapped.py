"""Calls with their own batching rule.

They are differentiated as the plain calls that they are.  The tangents are again a call with a batching rule, which is
the derivative of the first: so what is mapped follows the rule, its value and its tangent.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fgrad.graph.graph import Builder, applied, evaluate
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import Deferred, custom_vmap
from fgrad.jaxcore import typeof
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PullbackBuilder
from fgrad.passes.vjp import vjp
from fgrad.record.stager import stage
from fgrad.rules.kinds import Region, define


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    n, m = len(op.in_types), len(op.out_types)
    wrt = [i for i, is_live in enumerate(live) if is_live]
    joint = jvp(op.params["call"], wrt)
    plain = Builder(joint.graph.in_types)
    call = plain.finish(plain.splice(joint.graph, plain.inputs)[m:])
    moved = tuple([k for k, r in enumerate(joint.results) if r is not None])
    rule = op.params["rule"]

    def pushed(size: int, mapped: Any, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return _pushed(rule(), wrt, moved, size, mapped, args)

    params = {"call": call, "rule": Deferred(("tangents", rule.key, live), lambda: pushed)}
    builder = Builder(call.in_types)
    first = builder.emit(op, tuple(builder.inputs[:n]))
    last = builder.emit(intern(custom_vmap, params, call.in_types), tuple(builder.inputs))
    return Local(builder.finish([*range(first, first + m), *range(last, last + len(moved))]), joint.results)


def _pushed(
    rule: Any, wrt: Sequence[int], moved: Sequence[int], size: int, mapped: Sequence[bool], args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The tangents of the outputs ``moved`` of a batching rule, all of them mapped.

    A value is mapped where its tangent is, and the reverse.
    """
    n = len(args) - len(wrt)
    flags = list(mapped[:n])
    for i, is_mapped in zip(wrt, mapped[n:], strict=True):
        flags[i] = flags[i] or is_mapped

    def broadcast(x: Any, before: bool, after: bool) -> Any:
        return jnp.broadcast_to(x, (size, *jnp.shape(x))) if after and not before else x

    values = [broadcast(*each) for each in zip(args[:n], mapped, flags, strict=False)]
    directions = [broadcast(x, is_mapped, flags[i]) for i, x, is_mapped in zip(wrt, args[n:], mapped[n:], strict=True)]

    def function(*xs: Any) -> list[Any]:
        outs, out_mapped = rule(size, flags, xs)
        return [broadcast(outs[k], out_mapped[k], True) for k in moved]

    graph, closed_over = stage(function, [typeof(x) for x in values])
    joint = jvp(graph, wrt)
    outs = evaluate(joint.graph, [*values, *closed_over, *directions])
    primals, given = outs[: len(moved)], outs[len(moved) :]
    tangents = [jnp.zeros_like(x) if r is None else given[r] for x, r in zip(primals, joint.results, strict=True)]
    return tuple(tangents), (True,) * len(moved)


def plain_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    """The forward pass keeps the call, and so its batching rule; the backward pass recomputes what it reads."""
    joint = vjp(op.params["call"], [i for i, needed in enumerate(needs) if needed], live)
    builder = PullbackBuilder(op, live)
    spliced = builder.splice(joint.graph, [*builder.ins, *builder.cotangents.values()])
    return Adjoint(applied(op), builder.finish(spliced[len(op.out_types) :]), joint.results)


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    return passed_on_by(op.params["call"], [i for i, needed in enumerate(needs) if needed])


define("custom_vmap", Region(adjoint=plain_adjoint, tangents=_tangents, varied=_varied))
