"""Rematerialised blocks: the backward pass runs the body again instead of keeping its intermediates.

What a policy lets keep after all may have to wait in the memory of the host: the forward block puts it there, and the
backward block fetches it.
"""

from collections.abc import Callable
from typing import Any

import jax

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import keeps, remat
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.record.recording import stage_closed
from fgrad.rules.kinds import Region, define


def _wrapped(op: Op, graph: Graph, barrier: bool | None) -> Op:
    """A region of the same policy with another body."""
    return intern(remat, {**op.params, "body": graph, "barrier": barrier}, graph.in_types)


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    joint = jvp(op.params["body"], [i for i, yes in enumerate(live) if yes])
    region = _wrapped(op, simplify(joint.graph), op.params["barrier"])
    builder = Builder(joint.graph.in_types)
    first = builder.emit(region, tuple(builder.inputs))
    return Local(builder.finish(range(first, first + len(region.out_types))), joint.results)


def _saved(body: Graph, policy: Callable[..., Any] | None) -> dict[int, Any]:
    """The values of the body that the policy lets keep, with the memory that they are to wait in if it says one."""
    saved: dict[int, Any] = {}
    number = len(body.in_types) + len(body.consts)
    for node in body.nodes:
        count = len(node.op.out_types)
        answer = policy is not None and policy(node.op.primitive, *node.op.in_types, **node.op.params)
        if keeps(answer):
            kind = getattr(answer, "dst", None)
            space = None if kind is None else jax.memory.Space.Host if "host" in kind else jax.memory.Space.Device
            saved.update(dict.fromkeys(range(number, number + count), space))
        number += count
    return saved


def _moved(builder: Builder, number: int, space: Any) -> int:
    """A value in another memory."""
    return builder.splice(stage_closed(lambda x: [jax.device_put(x, space)], [builder.types[number]]), [number])[0]


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    body: Graph = op.params["body"]
    n, m = len(op.in_types), len(op.out_types)
    joint = vjp(body, [i for i, yes in enumerate(needs) if yes], live)
    whole = simplify(joint.graph)
    # the body as it stands in the joint graph (whose nodes come in the body's order) tells which values may be kept
    spaces = _saved(whole, op.params["policy"])
    early = _before_cotangents(whole, n)
    saved = [i for i in spaces if i in early]
    # forward: the body, giving its outputs and what may be saved
    first_graph = Builder(whole.in_types)
    outs = first_graph.splice(
        Graph(whole.in_types, whole.consts, whole.nodes, (*whole.outputs[:m], *saved)), first_graph.inputs
    )
    saved_at = dict(zip(saved, outs[m:], strict=True))
    for i, number in saved_at.items():
        space = spaces[i]
        saved_at[i] = number if space is None else _moved(first_graph, number, space)
    # backward: (inputs, saved values, cotangents) -> input cotangents; a saved value is read, not recomputed
    builder = Builder(whole.in_types[:n])
    taken = {i: builder.input(first_graph.types[saved_at[i]]) for i in saved}
    cts = [builder.input(t) for t in whole.in_types[n:]]
    kept = {i: at if spaces[i] is None else _moved(builder, at, jax.memory.Space.Device) for i, at in taken.items()}
    numbers = [*builder.inputs[:n], *cts, *(builder.const(c) for c in whole.consts)]
    for node in whole.nodes:
        first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        at = len(numbers)
        numbers += [kept.get(at + k, first + k) for k in range(len(node.op.out_types))]
    second = builder.finish([numbers[i] for i in whole.outputs[m:]])
    read = {i for node in second.nodes for i in node.inputs} | set(second.outputs)
    saved = [i for k, i in enumerate(saved) if n + k in read]
    used = [i for i in builder.inputs if i < n or i in cts or i in [taken[j] for j in saved]]
    second = builder.finish([numbers[i] for i in whole.outputs[m:]], used)
    forward = first_graph.finish([*outs[:m], *(saved_at[i] for i in saved)], first_graph.inputs[:n])
    forward_op = _wrapped(op, forward, op.params["barrier"])
    builder = Builder(op.in_types)
    first = builder.emit(forward_op, tuple(builder.inputs))
    kept_forward = builder.finish(range(first, first + len(forward_op.out_types)))
    back_op = _wrapped(op, second, None if op.params["barrier"] is None else True)
    builder = Builder([*op.in_types, *op.out_types, *second.in_types[n:]])
    at_in = builder.inputs
    first = builder.emit(back_op, (*at_in[:n], *at_in[n + m :]))
    return Adjoint(kept_forward, builder.finish(range(first, first + len(back_op.out_types))), joint.results)


def _before_cotangents(graph: Graph, n: int) -> set[int]:
    """The values that do not depend on the inputs after the first ``n``."""
    late = set(range(n, len(graph.in_types)))
    number = len(graph.in_types) + len(graph.consts)
    early = set()
    for node in graph.nodes:
        outs = range(number, number + len(node.op.out_types))
        if late.isdisjoint(node.inputs):
            early.update(outs)
        else:
            late.update(outs)
        number += len(outs)
    return early


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    return passed_on_by(op.params["body"], [i for i, yes in enumerate(needs) if yes])


define("remat", Region(adjoint=_adjoint, tangents=_tangents, varied=_varied))
