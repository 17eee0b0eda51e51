"""Conditionals: the derivative of a choice is the choice of the derivatives."""

from collections.abc import Mapping, Sequence

from attrs import frozen

from fgrad.graph.graph import Builder, Graph, applied
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import cond
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import strong
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PullbackBuilder, PushforwardBuilder, tangent_type, zeros
from fgrad.passes.partition import Halves, partition
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.rules.kinds import Region, define


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    branches: tuple[Graph, ...] = op.params["branches"]
    m = len(op.out_types)
    joints = [jvp(branch, [i for i, is_live in enumerate(live[1:]) if is_live]) for branch in branches]
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
    builder = PushforwardBuilder(op, live)
    args = tuple(builder.inputs)
    first = builder.emit(intern(cond, {"branches": tuple(widened)}, [builder.types[i] for i in args]), args)
    return builder.pushed(range(first, first + m), {k: first + m + i for i, k in enumerate(wanted)})


@frozen
class _Slots:
    """Where the residuals of all branches are kept: branches share slots of one type, since only one of them runs.

    What a branch keeps of its operands as they are needs no slot.
    """

    types: list[ShapedArray]
    #: for each branch, the slots of its residuals that are no operands, by their numbers in its forward graph
    of: list[dict[int, int]]


def _slots(forwards: Sequence[Graph], residuals: Sequence[Sequence[int]]) -> _Slots:
    types: list[ShapedArray] = []
    of: list[dict[int, int]] = []
    for forward, numbers in zip(forwards, residuals, strict=True):
        free = list(range(len(types)))
        slot_of: dict[int, int] = {}
        for number in numbers:
            if number < len(forward.in_types):
                continue
            type = strong(forward.types[number])
            slot = next((s for s in free if types[s] == type), None)
            if slot is None:
                slot = len(types)
                types.append(type)
            else:
                free.remove(slot)
            slot_of[number] = slot
        of.append(slot_of)
    return _Slots(types, of)


def _filling_slots(forward: Graph, m: int, slots: Sequence[ShapedArray], slot_of: Mapping[int, int]) -> Graph:
    """A branch that gives its ``m`` outputs and fills its slots; the others are zero."""
    builder = Builder(forward.in_types)
    outs = builder.splice(forward, builder.inputs)
    filled = {slot_of[i]: out for i, out in zip(forward.outputs[m:], outs[m:], strict=True) if i in slot_of}
    return builder.finish([*outs[:m], *(filled[s] if s in filled else zeros(builder, t) for s, t in enumerate(slots))])


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    branches: tuple[Graph, ...] = op.params["branches"]
    operands, m = op.in_types[1:], len(op.out_types)
    wrt = [i for i, needed in enumerate(needs[1:]) if needed]
    joints = [vjp(branch, wrt, live) for branch in branches]
    halves: list[Halves] = []
    for joint in joints:
        full = simplify(joint.graph)
        late = range(len(operands), len(full.in_types))
        halves.append(partition(full, late, [k >= m for k in range(len(full.outputs))]))
    residuals = [half.known.outputs[m:] for half in halves]
    slots = _slots([half.known for half in halves], residuals)
    forwards = [
        _filling_slots(half.known, m, slots.types, slot_of) for half, slot_of in zip(halves, slots.of, strict=True)
    ]
    # a cotangent that any branch gives, all must give
    wanted = [j for j in range(len(wrt)) if any(joint.results[j] is not None for joint in joints)]
    backwards = []
    for joint, half, numbers, slot_of in zip(joints, halves, residuals, slots.of, strict=True):
        builder = Builder([*operands, *slots.types, *half.unknown.in_types[half.num_residuals :]])
        ins, kept = builder.inputs[: len(operands)], builder.inputs[len(operands) :]
        saved = [kept[slot_of[i]] if i in slot_of else ins[i] for i in numbers]
        cts = builder.splice(half.unknown, [*saved, *kept[len(slots.types) :]])
        positions = [joint.results[j] for j in wanted]
        types = [tangent_type(operands[wrt[j]]) for j in wanted]
        backwards.append(
            builder.finish([zeros(builder, t) if r is None else cts[r] for r, t in zip(positions, types, strict=True)])
        )
    forward = applied(intern(cond, {"branches": tuple(forwards)}, op.in_types))
    builder = PullbackBuilder(op, live, slots.types)
    args = (*builder.ins, *builder.residuals, *builder.cotangents.values())
    first = builder.emit(intern(cond, {"branches": tuple(backwards)}, [builder.types[i] for i in args]), args)
    return builder.adjoint(forward, {1 + wrt[j]: first + i for i, j in enumerate(wanted)}, needs)


def _varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    wrt = [i for i, needed in enumerate(needs[1:]) if needed]
    return [any(outs) for outs in zip(*(passed_on_by(branch, wrt) for branch in op.params["branches"]), strict=True)]


define("cond", Region(adjoint=_adjoint, tangents=_tangents, varied=_varied))
