"""Loops: ``scan`` in both modes, ``while`` in forward mode.

NOTE [Reverse mode of a scan]
The forward scan also stacks, per step, the residuals that the body's pull-back reads; the backward scan runs over
them in the opposite direction, carrying the cotangent of the carry and the running sums of the constants' cotangents.
Which residuals are stacked says NOTE [Residuals of a scan], which sums are not carried NOTE [Sums over steps].
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import scan, while_
from fgrad.jaxcore import ShapedArray, strong
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PullbackBuilder, PushforwardBuilder, add, tangent_type, zeros
from fgrad.passes.partition import partition
from fgrad.passes.regions.scan_residuals import Kept, kept_residuals, moved_by_one
from fgrad.passes.regions.scan_sums import Sum, emit_sum, operands_of, sums_over_steps
from fgrad.passes.simplify import simplify
from fgrad.passes.trim import without_inputs
from fgrad.passes.vjp import vjp
from fgrad.rules.kinds import Region, define


def _varied_carry(
    body: Graph, before: Sequence[int], carry: Sequence[bool], after: Sequence[int], offset: int
) -> list[bool]:
    """Which carries vary, given the varied inputs before and after them: the smallest set closed under the body."""
    n = len(carry)
    carried = list(carry)
    while True:
        passed = passed_on_by(body, [*before, *(offset + i for i in range(n) if carried[i]), *after])
        wider = [a or b for a, b in zip(carried, passed[:n], strict=True)]
        if wider == carried:
            return carried
        carried = wider


@frozen
class _Groups:
    """Inputs of a scan, and of its body, by group: positions among all of them."""

    consts: Sequence[int]
    carry: Sequence[int]
    xs: Sequence[int]

    @property
    def all(self) -> list[int]:
        return [*self.consts, *self.carry, *self.xs]


def _groups(op: Op) -> _Groups:
    nc, nk = op.params["num_consts"], op.params["num_carry"]
    return _Groups(range(nc), range(nc, nc + nk), range(nc + nk, len(op.in_types)))


def _varied_groups(op: Op, live: Sequence[bool]) -> _Groups:
    """The inputs of the body that vary, in whichever step, when the scan's ``live`` inputs do."""
    groups = _groups(op)
    consts, xs = [i for i in groups.consts if live[i]], [i for i in groups.xs if live[i]]
    carried = _varied_carry(op.params["body"], consts, [live[i] for i in groups.carry], xs, len(groups.consts))
    return _Groups(consts, [i for i, carries in zip(groups.carry, carried, strict=True) if carries], xs)


class _ScanBuilder:
    """Writes a scan into ``outer``: each input of its body is declared with the value that it comes from there."""

    def __init__(self, outer: Builder):
        self.outer: Builder = outer
        self.body: Builder = Builder()
        #: by group: the values of ``outer`` and the inputs of the body
        self._consts: list[tuple[int, int]] = []
        self._carry: list[tuple[int, int]] = []
        self._xs: list[tuple[int, int]] = []

    def const(self, value: int, type: ShapedArray) -> int:
        """The body's input for a value that is the same in every step."""
        return self._declare(self._consts, value, type)

    def carry(self, value: int, type: ShapedArray) -> int:
        """The body's input for a carry that starts with this value."""
        return self._declare(self._carry, value, type)

    def x(self, value: int, type: ShapedArray) -> int:
        """The body's input for the slices of a value, of this type each."""
        return self._declare(self._xs, value, type)

    def _declare(self, group: list[tuple[int, int]], value: int, type: ShapedArray) -> int:
        number = self.body.input(type)
        group.append((value, number))
        return number

    def inputs(self, groups: _Groups, value_of: Callable[[int], int], types: Sequence[ShapedArray]) -> list[int]:
        """An input for each that another body has, in the same group."""
        return [
            *(self.const(value_of(i), types[i]) for i in groups.consts),
            *(self.carry(value_of(i), types[i]) for i in groups.carry),
            *(self.x(value_of(i), types[i]) for i in groups.xs),
        ]

    def finish(self, carry: Sequence[int], ys: Sequence[int], params: dict[str, Any]) -> tuple[list[int], list[int]]:
        """Emit the scan whose body gives the next carries and the ys; the numbers of its last carries and its ys."""
        outputs = [*carry, *ys]
        declared = [*self._consts, *self._carry, *self._xs]
        body = self.body.finish(outputs, [number for _, number in declared])
        read = {i for node in body.nodes for i in node.inputs} | {*body.outputs}
        # what was declared and not read does not enter the loop
        kept = {number for k, (_, number) in enumerate(declared) if k in read} | {number for _, number in self._carry}
        consts = [each for each in self._consts if each[1] in kept]
        declared = [*consts, *self._carry, *(each for each in self._xs if each[1] in kept)]
        body = self.body.finish(outputs, [number for _, number in declared])
        args = tuple([value for value, _ in declared])
        params = {**params, "body": body, "num_consts": len(consts), "num_carry": len(carry)}
        first = self.outer.emit(intern(scan, params, [self.outer.types[i] for i in args]), args)
        numbers = list(range(first, first + len(carry) + len(ys)))
        return numbers[: len(carry)], numbers[len(carry) :]


def _scan_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    body: Graph = op.params["body"]
    varied = _varied_groups(op, live)
    joint = jvp(body, varied.all)
    nc, nk, m = op.params["num_consts"], op.params["num_carry"], len(body.outputs)
    builder = PushforwardBuilder(op, live)
    loop = _ScanBuilder(builder)
    primals = loop.inputs(_groups(op), builder.ins.__getitem__, body.in_types)
    tangents = loop.inputs(varied, builder.tangent, [tangent_type(t) for t in body.in_types])
    outs = loop.body.splice(simplify(joint.graph), [*primals, *tangents])

    def tangent(k: int) -> int:
        at = joint.results[k]
        return zeros(loop.body, tangent_type(body.out_types[k])) if at is None else outs[m + at]

    carry = [i - nc for i in varied.carry]
    ys = [k for k in range(nk, m) if joint.results[k] is not None]
    carries, stacked = loop.finish([*outs[:nk], *map(tangent, carry)], [*outs[nk:m], *map(tangent, ys)], op.params)
    live_tangents = dict(zip([*carry, *ys], [*carries[nk:], *stacked[m - nk :]], strict=True))
    return builder.pushed([*carries[:nk], *stacked[: m - nk]], live_tangents)


def _scan_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    body: Graph = op.params["body"]
    groups, varied = _groups(op), _varied_groups(op, needs)
    nc, nk, m = len(groups.consts), len(groups.carry), len(op.out_types)
    joint = vjp(body, varied.all, [*(i in varied.carry for i in groups.carry), *live[nk:]])
    full = simplify(joint.graph)
    halves = partition(full, range(len(op.in_types), len(full.in_types)), [k >= m for k in range(len(full.outputs))])
    residuals = halves.known.outputs[m:]
    kept = kept_residuals(op, halves.known, residuals)
    forward = _scan_forward(op, halves.known, kept)

    builder = PullbackBuilder(op, live, forward.out_types[m:])
    loop = _ScanBuilder(builder)
    value_of = _values_kept(builder, op, kept)
    one_for_all = {*groups.consts, *kept.hoisted}
    leaves = [(loop.const if i in one_for_all else loop.x)(value_of[i], halves.known.types[i]) for i in kept.leaves]
    carry_types = {i: tangent_type(strong(body.out_types[i - nc])) for i in varied.carry}
    carry = [loop.carry(builder.cotangent(i - nc), type) for i, type in carry_types.items()]
    live_ys = [k for k in range(nk, m) if live[k]]

    unknown = halves.unknown
    outputs = {i: unknown.outputs[at] for i, at in zip(varied.all, joint.results, strict=True) if at is not None}
    xs = [outputs[i] for i in varied.xs if i in outputs]
    # the values of all steps that are there anyway: residuals, and cotangents of ys
    stacked = {at: value_of[i] for at, i in enumerate(residuals) if i in value_of and i not in one_for_all}
    stacked |= {len(residuals) + len(carry) + at: builder.cotangents[k] for at, k in enumerate(live_ys)}
    sums_known = sums_over_steps(unknown, lambda at: at < len(residuals) and residuals[at] in one_for_all)
    outside = _sums_outside(unknown, [outputs[i] for i in varied.consts if i in outputs], sums_known, {*stacked, *xs})
    sum_types = {i: tangent_type(body.in_types[i]) for i in varied.consts if i in outputs}
    inside = [i for i in sum_types if outputs[i] not in outside]
    sums = [loop.carry(zeros(builder, sum_types[i]), sum_types[i]) for i in inside]
    ys = [loop.x(builder.cotangents[k], tangent_type(body.out_types[k])) for k in live_ys]

    factors = [i for total in outside.values() for i in operands_of(total) if i not in stacked]
    extra = [i for i in dict.fromkeys(factors) if i not in xs]
    carried = [outputs[i] for i in varied.carry if i in outputs]
    wanted = list(dict.fromkeys([*carried, *(outputs[i] for i in inside), *xs, *extra]))
    saved = loop.body.splice(kept.derived, leaves)
    found = loop.body.splice(evolve(unknown, outputs=tuple(wanted)), [*saved, *carry, *ys])
    value = dict(zip(wanted, found, strict=True))
    before = [value[outputs[i]] if i in outputs else zeros(loop.body, type) for i, type in carry_types.items()]
    totals = [add(loop.body, total, value[outputs[i]]) for i, total in zip(inside, sums, strict=True)]
    params = {name: op.params[name] for name in ("length", "unroll")} | {"reverse": not op.params["reverse"]}
    carries, per_step = loop.finish([*before, *totals], [value[i] for i in [*xs, *extra]], params)
    gradients = dict(zip([*varied.carry, *inside], carries, strict=True))
    stacked |= zip([*xs, *extra], per_step, strict=True)
    gradients |= {i: stacked[outputs[i]] for i in varied.xs if i in outputs}
    gradients |= {i: emit_sum(builder, outside[outputs[i]], stacked) for i in sum_types if i not in gradients}
    return builder.adjoint(forward, gradients, needs)


def _values_kept(builder: PullbackBuilder, op: Op, kept: Kept) -> dict[int, int]:
    """By number in the body, the value that the backward graph has of each leaf: of all steps, or one for all."""
    values = dict(enumerate(builder.ins[: op.params["num_consts"]]))
    values |= {i: value for i, value in enumerate(builder.ins) if i >= op.params["num_consts"] + op.params["num_carry"]}
    values |= {i: builder.outs[k] for i, k in kept.given.items() if i not in values}
    values |= zip((*kept.stacked, *kept.hoisted), builder.residuals, strict=True)
    for i, k in kept.carried.items():
        values[i] = moved_by_one(builder, builder.ins[i], builder.outs[k], op.params["reverse"])
    return values


def _sums_outside(unknown: Graph, outputs: Sequence[int], sums: Mapping[int, Sum], there: set[int]) -> dict[int, Sum]:
    """Of the constants' cotangents in each step, those whose sum is taken outside: see NOTE [Sums over steps].

    ``there`` has the values of which those of all steps are there anyway.
    """
    outside: dict[int, Sum] = {}
    # the largest first: their factors are there for the others
    for i in sorted({*outputs} & sums.keys(), key=lambda i: -unknown.types[i].size):
        factors = {*operands_of(sums[i])}
        if sum([unknown.types[j].size for j in factors - there]) <= unknown.types[i].size:
            outside[i] = sums[i]
            there = there | factors
    return outside


def _scan_forward(op: Op, known: Graph, kept: Kept) -> Graph:
    """The forward graph: the outputs, then the residuals that it stacks, and those that it works out before."""
    groups, m = _groups(op), len(op.out_types)
    builder = Builder(op.in_types)
    body = _with_outputs(known, [*known.outputs[:m], *kept.stacked])
    first = builder.emit(intern(scan, {**op.params, "body": body}, op.in_types), tuple(builder.inputs))
    before_loop = without_inputs(
        _with_outputs(known, kept.hoisted), [i in groups.consts for i in range(len(op.in_types))]
    )
    hoisted = builder.splice(before_loop, builder.inputs[: len(groups.consts)])
    return builder.finish([*range(first, first + m + len(kept.stacked)), *hoisted])


def _with_outputs(graph: Graph, outputs: Sequence[int]) -> Graph:
    """The graph with these of its values as outputs."""
    builder = Builder(graph.in_types)
    return builder.finish(builder.splice(evolve(graph, outputs=tuple(outputs)), builder.inputs))


def _scan_varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    varied = _varied_groups(op, needs)
    passed = passed_on_by(op.params["body"], varied.all)
    return [*(i in varied.carry for i in _groups(op).carry), *passed[op.params["num_carry"] :]]


define("scan", Region(adjoint=_scan_adjoint, tangents=_scan_tangents, varied=_scan_varied))


def _while_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    body: Graph = op.params["body"]
    cond: Graph = op.params["cond"]
    nc, nb = op.params["cond_consts"], op.params["body_consts"]
    start, m = nc + nb, len(op.out_types)
    consts = [i for i in range(nb) if live[nc + i]]
    carry = [k for k, varies in enumerate(_while_varied(op, live)) if varies]
    wrt = [*consts, *(nb + k for k in carry)]
    joint = jvp(body, wrt)
    # both graphs take the tangents after the primals: (consts, their tangents, carry, its tangents)
    stepped = Builder(body.in_types)
    moving = [stepped.input(tangent_type(body.in_types[i])) for i in wrt]
    outs = stepped.splice(simplify(joint.graph), stepped.inputs)
    tangents = [
        zeros(stepped, tangent_type(body.out_types[k])) if (at := joint.results[k]) is None else outs[m + at]
        for k in carry
    ]
    at = stepped.inputs
    step = stepped.finish(
        [*outs[:m], *tangents], [*at[:nb], *moving[: len(consts)], *at[nb : nb + m], *moving[len(consts) :]]
    )
    asked = Builder([*cond.in_types, *(tangent_type(body.in_types[nb + k]) for k in carry)])
    test = asked.finish(asked.splice(cond, asked.inputs[: len(cond.in_types)]))
    builder = PushforwardBuilder(op, live)
    ins = [
        *builder.ins[:start], *(builder.tangent(nc + i) for i in consts),
        *builder.ins[start:], *(builder.tangent(start + k) for k in carry),
    ]  # fmt: skip
    params = {"cond": test, "body": step, "cond_consts": nc, "body_consts": nb + len(consts)}
    first = builder.emit(intern(while_, params, [builder.types[i] for i in ins]), tuple(ins))
    return builder.pushed(range(first, first + m), {k: first + m + i for i, k in enumerate(carry)})


def _while_varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    # What the condition reads decides only how many steps there are.
    nc, nb = op.params["cond_consts"], op.params["body_consts"]
    consts = [i for i in range(nb) if needs[nc + i]]
    return _varied_carry(op.params["body"], consts, needs[nc + nb :], [], nb)


def _while_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    raise errors.reverse_while()


define("while", Region(adjoint=_while_adjoint, tangents=_while_tangents, varied=_while_varied))
