"""Rematerialised blocks: the backward pass runs the body again instead of keeping its intermediates.

A value that the policy keeps may be offloaded to the host's memory: the forward block moves it there, and the backward
block fetches it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from fgrad.graph.graph import Builder, Graph, Node, applied
from fgrad.graph.op import Op, intern
from fgrad.graph.references import accesses_reference
from fgrad.graph.regions import keeps, remat
from fgrad.jaxcore import ShapedArray
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PullbackBuilder
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import Region, define


def _with_body(op: Op, graph: Graph, barrier: bool | None) -> Op:
    """A region of the same policy with another body."""
    return intern(remat, {**op.params, "body": graph, "barrier": barrier}, graph.in_types)


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    joint = jvp(op.params["body"], [i for i, is_live in enumerate(live) if is_live])
    return Local(applied(_with_body(op, simplify(joint.graph), op.params["barrier"])), joint.results)


def _saved(body: Graph, policy: Callable[..., Any] | None) -> dict[int, Any]:
    """The values of the body that the policy keeps, each with the memory that it is offloaded to, if any."""
    saved: dict[int, Any] = {}
    for node, outs in body.numbered():
        answer = policy is not None and policy(node.op.primitive, *node.op.in_types, **node.op.params)
        if keeps(answer):
            kind = getattr(answer, "dst", None)
            space = None if kind is None else jax.memory.Space.Host if "host" in kind else jax.memory.Space.Device
            saved.update(dict.fromkeys(outs, space))
    return saved


def _moved(builder: Builder, number: int, space: Any) -> int:
    """A value in another memory."""
    return builder.splice(stage_closed(lambda x: [jax.device_put(x, space)], [builder.types[number]]), [number])[0]


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    body: Graph = op.params["body"]
    n, m = len(op.in_types), len(op.out_types)
    joint = vjp(body, [i for i, needed in enumerate(needs) if needed], live)
    full = simplify(joint.graph)
    # the body as it stands in the joint graph (whose nodes come in the body's order) tells which values may be kept
    nodes, early = _before_cotangents(full, n)
    spaces = {i: space for i, space in _saved(full, op.params["policy"]).items() if i in early}
    first_graph, outs, kept = _forward_block(full, nodes, m, spaces)
    second, saved = _backward_block(full, n, m, spaces, {i: first_graph.types[number] for i, number in kept.items()})
    forward = first_graph.finish([*outs, *(kept[i] for i in saved)], first_graph.inputs[:n])
    backward_op = _with_body(op, second, None if op.params["barrier"] is None else True)
    builder = PullbackBuilder(op, live, second.in_types[n : n + len(saved)])
    first = builder.emit(backward_op, (*builder.ins, *builder.residuals, *builder.cotangents.values()))
    backward = builder.finish(range(first, first + len(backward_op.out_types)))
    return Adjoint(applied(_with_body(op, forward, op.params["barrier"])), backward, joint.results)


def _forward_block(
    full: Graph, early: Sequence[tuple[Node, range]], m: int, spaces: dict[int, Any]
) -> tuple[Builder, Sequence[int], dict[int, int]]:
    """The body in a builder, the numbers of its outputs, and those of what may be saved, where it is to be kept."""
    builder = Builder(full.in_types)
    numbers = dict(enumerate([*builder.inputs, *(builder.const(c) for c in full.consts)]))
    for node, outs in early:
        first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        numbers.update(zip(outs, range(first, first + len(outs)), strict=True))
    kept = {i: numbers[i] for i in spaces}
    for i, space in spaces.items():
        if space is not None:
            kept[i] = _moved(builder, kept[i], space)
    return builder, [numbers[i] for i in full.outputs[:m]], kept


def _backward_block(
    full: Graph, n: int, m: int, spaces: dict[int, Any], types: dict[int, ShapedArray]
) -> tuple[Graph, list[int]]:
    """From inputs, saved values and cotangents to the inputs' cotangents, and which of the saved values it reads.

    A saved value is read and not computed again.
    """
    builder = Builder(full.in_types[:n])
    saved = {i: builder.input(types[i]) for i in spaces}
    cts = [builder.input(t) for t in full.in_types[n:]]
    at_hand = {i: at if spaces[i] is None else _moved(builder, at, jax.memory.Space.Device) for i, at in saved.items()}
    numbers = [*builder.inputs[:n], *cts, *(builder.const(c) for c in full.consts)]
    for node in full.nodes:
        first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        at = len(numbers)
        numbers += [at_hand.get(at + k, first + k) for k in range(len(node.op.out_types))]
    outputs = [numbers[i] for i in full.outputs[m:]]
    graph = builder.finish(outputs)
    read = {i for node in graph.nodes for i in node.inputs} | set(graph.outputs)
    needed = [i for k, i in enumerate(saved) if n + k in read]
    return builder.finish(outputs, [*builder.inputs[:n], *(saved[i] for i in needed), *cts]), needed


def _before_cotangents(graph: Graph, n: int) -> tuple[list[tuple[Node, range]], set[int]]:
    """The nodes that do not depend on the inputs after the first ``n``, and all their values.

    NOTE [References on the cut] of ``partition`` holds here too.
    """
    late = set(range(n, len(graph.in_types)))
    nodes: list[tuple[Node, range]] = []
    early: set[int] = set()
    for node, outs in graph.numbered():
        if late.isdisjoint(node.inputs) and not accesses_reference(node):
            nodes.append((node, outs))
            early.update(outs)
        else:
            late.update(outs)
    return nodes, early


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    return passed_on_by(op.params["body"], [i for i, needed in enumerate(needs) if needed])


define("remat", Region(adjoint=_adjoint, tangents=_tangents, varied=_varied))
