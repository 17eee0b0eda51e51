"""Reverse mode of ``scan``.

NOTE [Reverse mode of a scan]
The forward scan also stacks, per step, the residuals that the body's pull-back reads; the backward scan runs over
them in the opposite direction, carrying the cotangent of the carry and the running sums of the constants' cotangents.
NOTE [Residuals of a scan] says which residuals are stacked; NOTE [Sums over steps], which sums are not carried.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import scan
from fgrad.passes.local import Adjoint, PullbackBuilder, add, tangent_type, zeros
from fgrad.passes.partition import partition
from fgrad.passes.regions.scan_layout import ScanBuilder, ScanLayout
from fgrad.passes.regions.scan_residuals import Kept, kept_residuals, moved_by_one
from fgrad.passes.regions.scan_sums import Sum, emit_sum, operands_of, sums_over_steps
from fgrad.passes.simplify import simplify
from fgrad.passes.trim import without_inputs
from fgrad.passes.vjp import vjp


@frozen(eq=False)
class _StepPullback:
    """The pull-back of a scan's body.

    Attributes:
      scan: the operation.
      graph: (residuals, cotangents of the next carry, cotangents of the ys) -> cotangents of the body's inputs.
      residuals: the first inputs of the graph, as values of the body.
      carry: for each varied carry, its input in the body -> the output that is its next value.
      ys: the outputs of the scan whose cotangents come last.
      of_consts, of_carry, of_xs: by input of the body, the value of the graph that is its cotangent, if it has one.
    """

    scan: Op
    graph: Graph
    residuals: Sequence[int]
    carry: Mapping[int, int]
    ys: Sequence[int]
    of_consts: Mapping[int, int]
    of_carry: Mapping[int, int]
    of_xs: Mapping[int, int]


def scan_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    """The forward scan that also stacks residuals, and the backward scan with the sums taken outside it."""
    known, pullback = _step_pullback(op, ScanLayout.varied(op, needs), live)
    kept = kept_residuals(op, known, pullback.residuals)
    forward = _forward(op, known, kept)
    builder = PullbackBuilder(op, live, forward.out_types[len(op.out_types) :])
    values = _values_kept(builder, op, kept)
    stacked = _stacked_inputs(pullback, kept, values, builder.cotangents)
    outside = _sums_outside(pullback, kept, {*stacked})

    inside = {i: at for i, at in pullback.of_consts.items() if at not in outside}
    factors = [at for total in outside.values() for at in operands_of(total) if at not in stacked]
    per_step = list(dict.fromkeys([*pullback.of_xs.values(), *factors]))
    loop = ScanBuilder(builder)
    residuals = _residuals(loop, kept, values)
    cotangents, ys = _backward_scan(builder, pullback, loop, residuals, inside, per_step)
    stacked |= zip(per_step, ys, strict=True)
    cotangents |= {i: stacked[at] for i, at in pullback.of_xs.items()}
    cotangents |= {i: emit_sum(builder, outside[at], stacked) for i, at in pullback.of_consts.items() if at in outside}
    return builder.adjoint(forward, cotangents, needs)


def _step_pullback(op: Op, varied: ScanLayout, live: Sequence[bool]) -> tuple[Graph, _StepPullback]:
    """The body with its residuals as further outputs, and its pull-back."""
    layout, m = ScanLayout.of(op), len(op.out_types)
    ys = [k for k in range(len(layout.carry), m) if live[k]]
    joint = vjp(op.params["body"], varied.all, [*(i in varied.carry for i in layout.carry), *live[len(layout.carry) :]])
    full = simplify(joint.graph)
    halves = partition(full, range(len(op.in_types), len(full.in_types)), [k >= m for k in range(len(full.outputs))])
    outputs = halves.unknown.outputs
    cotangents = {i: outputs[at] for i, at in zip(varied.all, joint.results, strict=True) if at is not None}
    carry = {i: i - len(layout.consts) for i in varied.carry}
    groups = varied.consts, varied.carry, varied.xs
    by_group = [{i: cotangents[i] for i in group if i in cotangents} for group in groups]
    return halves.known, _StepPullback(op, halves.unknown, halves.known.outputs[m:], carry, ys, *by_group)


def _residuals(loop: ScanBuilder, kept: Kept, values: Mapping[int, int]) -> list[int]:
    """Give the backward scan what it reads; the residuals in its body."""
    leaves = [
        (loop.const if i in kept.constant else loop.x)(values[i], type)
        for i, type in zip(kept.leaves, kept.derived.in_types, strict=True)
    ]
    return loop.body.splice(kept.derived, leaves)


def _backward_scan(
    builder: PullbackBuilder,
    pullback: _StepPullback,
    loop: ScanBuilder,
    residuals: Sequence[int],
    sums: Mapping[int, int],
    per_step: Sequence[int],
) -> tuple[dict[int, int], list[int]]:
    """Emit the backward scan.

    Args:
      sums: the constants whose cotangents it sums up, as in ``of_consts`` of the pull-back.
      per_step: the values of the pull-back that it stacks.

    Returns:
      the cotangents of the carry's inputs and of these constants, by input; and what it has stacked.
    """
    body: Graph = pullback.scan.params["body"]
    carry = {i: loop.carry(builder.cotangent(k), tangent_type(body.out_types[k])) for i, k in pullback.carry.items()}
    totals = {i: loop.carry(zeros(builder, type), type) for i in sums for type in [tangent_type(body.in_types[i])]}
    ys = [loop.x(builder.cotangents[k], tangent_type(body.out_types[k])) for k in pullback.ys]
    wanted = list(dict.fromkeys([*pullback.of_carry.values(), *sums.values(), *per_step]))
    step = evolve(pullback.graph, outputs=tuple(wanted))
    value = dict(zip(wanted, loop.body.splice(step, [*residuals, *carry.values(), *ys]), strict=True))
    before = {
        i: value[pullback.of_carry[i]] if i in pullback.of_carry else zeros(loop.body, loop.body.types[after])
        for i, after in carry.items()
    }
    before |= {i: add(loop.body, total, value[sums[i]]) for i, total in totals.items()}
    params = {**pullback.scan.params, "reverse": not pullback.scan.params["reverse"]}
    carries, stacked = loop.finish([*before.values()], [value[at] for at in per_step], params)
    return dict(zip(before, carries, strict=True)), stacked


def _stacked_inputs(
    pullback: _StepPullback, kept: Kept, values: Mapping[int, int], cotangents: Mapping[int, int]
) -> dict[int, int]:
    """The values already stacked over all steps, by input of the pull-back: residuals and cotangents of ys."""
    start = len(pullback.residuals) + len(pullback.carry)
    stacked = {at: values[i] for at, i in enumerate(pullback.residuals) if i in values and i not in kept.constant}
    return stacked | {at: cotangents[k] for at, k in enumerate(pullback.ys, start)}


def _sums_outside(pullback: _StepPullback, kept: Kept, available: set[int]) -> dict[int, Sum]:
    """Of the constants' cotangents in each step, those whose sum is taken outside: see NOTE [Sums over steps].

    ``available``: the values of a step that are already stacked over all steps.
    """
    graph, residuals = pullback.graph, pullback.residuals
    sums = sums_over_steps(graph, lambda at: at < len(residuals) and residuals[at] in kept.constant)
    available = available | {*pullback.of_xs.values()}
    outside: dict[int, Sum] = {}
    # the largest first: their factors are there for the others
    for i in sorted({*pullback.of_consts.values()} & sums.keys(), key=lambda i: -graph.types[i].size):
        factors = {*operands_of(sums[i])}
        if sum([graph.types[j].size for j in factors - available]) <= graph.types[i].size:
            outside[i] = sums[i]
            available |= factors
    return outside


def _values_kept(builder: PullbackBuilder, op: Op, kept: Kept) -> dict[int, int]:
    """By number in the body, the value that the backward graph has of each leaf: of all steps, or one for all."""
    layout = ScanLayout.of(op)
    values = {i: builder.ins[i] for i in (*layout.consts, *layout.xs)}
    values |= {i: builder.outs[k] for i, k in kept.given.items() if i not in values}
    values |= zip((*kept.stacked, *kept.hoisted), builder.residuals, strict=True)
    for i, k in kept.carried.items():
        values[i] = moved_by_one(builder, builder.ins[i], builder.outs[k], op.params["reverse"])
    return values


def _forward(op: Op, known: Graph, kept: Kept) -> Graph:
    """The forward graph: the outputs, then the residuals that it stacks, and those computed once before the loop."""
    consts, m = ScanLayout.of(op).consts, len(op.out_types)
    builder = Builder(op.in_types)
    body = _with_outputs(known, [*known.outputs[:m], *kept.stacked])
    first = builder.emit(intern(scan, {**op.params, "body": body}, op.in_types), tuple(builder.inputs))
    before_loop = without_inputs(_with_outputs(known, kept.hoisted), [i in consts for i in range(len(op.in_types))])
    hoisted = builder.splice(before_loop, builder.inputs[: len(consts)])
    return builder.finish([*range(first, first + m + len(kept.stacked)), *hoisted])


def _with_outputs(graph: Graph, outputs: Sequence[int]) -> Graph:
    """The graph with these of its values as outputs."""
    builder = Builder(graph.in_types)
    return builder.finish(builder.splice(evolve(graph, outputs=tuple(outputs)), builder.inputs))
