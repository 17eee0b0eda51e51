"""Conditionals: the derivative of a choice is the choice of the derivatives."""

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import cond, strong
from fgrad.jaxcore import ShapedArray
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, tangent_type, zeros
from fgrad.passes.partition import Halves, partition
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.rules.kinds import Region, define


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    branches: tuple[Graph, ...] = op.params["branches"]
    m = len(op.out_types)
    joints = [jvp(branch, [i for i, yes in enumerate(live[1:]) if yes]) for branch in branches]
    # a tangent that any branch gives, all must give
    wanted = [k for k in range(m) if any(joint.results[k] is not None for joint in joints)]
    widened = []
    for joint in joints:
        builder = Builder(joint.graph.in_types)
        outs = builder.splice(simplify(joint.graph), builder.inputs)
        tangents = [
            zeros(builder, tangent_type(strong(op.out_types[k]))) if (at := joint.results[k]) is None else outs[m + at]
            for k in wanted
        ]
        widened.append(builder.finish([*outs[:m], *tangents]))
    ins = [*op.in_types, *widened[0].in_types[len(op.in_types) - 1 :]]
    region = intern(cond, {"branches": tuple(widened)}, ins)
    builder = Builder(ins)
    first = builder.emit(region, tuple(builder.inputs))
    at = {k: i for i, k in enumerate(wanted)}
    return Local(builder.finish(range(first, first + len(region.out_types))), tuple([at.get(k) for k in range(m)]))


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    branches: tuple[Graph, ...] = op.params["branches"]
    n, m = len(op.in_types), len(op.out_types)
    wrt = [i for i, yes in enumerate(needs[1:]) if yes]
    joints = [vjp(branch, wrt, live) for branch in branches]
    halves: list[Halves] = []
    for joint in joints:
        whole = simplify(joint.graph)
        late = list(range(n - 1, len(whole.in_types)))
        halves.append(partition(whole, late, [k >= m for k in range(len(whole.outputs))]))
    # residual slots are shared between branches by type; an operand that a branch keeps as it is needs no slot
    slots: list[ShapedArray] = []
    places: list[list[int]] = []
    for half in halves:
        free = list(range(len(slots)))
        mine: list[int] = []
        for j, number in enumerate(half.known.outputs[m:]):
            if number < n - 1:
                mine.append(-1 - number)
                continue
            type = strong(half.known.out_types[m + j])
            found = next((s for s in free if slots[s] == type), None)
            if found is None:
                found = len(slots)
                slots.append(type)
            else:
                free.remove(found)
            mine.append(found)
        places.append(mine)
    wanted = [j for j in range(len(wrt)) if any(joint.results[j] is not None for joint in joints)]
    forwards, backwards = [], []
    for joint, half, mine in zip(joints, halves, places, strict=True):
        builder = Builder(half.known.in_types)
        outs = builder.splice(half.known, builder.inputs)
        by_slot = {s: outs[m + j] for j, s in enumerate(mine) if s >= 0}
        forwards.append(
            builder.finish(
                [*outs[:m], *(by_slot[s] if s in by_slot else zeros(builder, t) for s, t in enumerate(slots))]
            )
        )
        ct_types = half.unknown.in_types[half.num_residuals :]
        builder = Builder([*op.in_types[1:], *slots, *ct_types])
        at = builder.inputs
        residuals = [at[n - 1 + s] if s >= 0 else at[-1 - s] for s in mine]
        cts = builder.splice(half.unknown, [*residuals, *at[n - 1 + len(slots) :]])
        results = [joint.results[j] for j in wanted]
        backwards.append(
            builder.finish(
                [
                    zeros(builder, tangent_type(op.in_types[1 + wrt[j]])) if r is None else cts[r]
                    for j, r in zip(wanted, results, strict=True)
                ]
            )
        )
    forward_op = intern(cond, {"branches": tuple(forwards)}, op.in_types)
    builder = Builder(op.in_types)
    first = builder.emit(forward_op, tuple(builder.inputs))
    forward = builder.finish(range(first, first + m + len(slots)))
    ct_types = [tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes]
    builder = Builder([*op.in_types, *op.out_types, *slots, *ct_types])
    at = builder.inputs
    args = (*at[:n], *at[n + m :])
    region = intern(cond, {"branches": tuple(backwards)}, [builder.types[i] for i in args])
    first = builder.emit(region, args)
    place = {j: i for i, j in enumerate(wanted)}
    return Adjoint(
        forward, builder.finish(range(first, first + len(wanted))), tuple([place.get(j) for j in range(len(wrt))])
    )


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    wrt = [i for i, yes in enumerate(needs[1:]) if yes]
    return [any(outs) for outs in zip(*(passed_on_by(branch, wrt) for branch in op.params["branches"]), strict=True)]


define("cond", Region(adjoint=_adjoint, tangents=_tangents, varied=_varied))
