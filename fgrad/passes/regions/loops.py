"""Loops: ``scan`` in both modes, ``while`` in forward mode.

NOTE [Reverse mode of a scan]
The forward scan also stacks, per step, the residuals that the body's pull-back reads; the backward scan runs over
them in the opposite direction, carrying the cotangent of the carry and the running sums of the constants' cotangents.
Of the residuals, those that are constants of the loop are passed as constants, those that are slices of the xs are
read from the xs, and those that depend on constants only are worked out once, outside.  Only the rest is stacked.
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
        declared = [*self._consts, *self._carry, *self._xs]
        body = self.body.finish([*carry, *ys], [number for _, number in declared])
        args = tuple([value for value, _ in declared])
        params = {**params, "body": body, "num_consts": len(self._consts), "num_carry": len(carry)}
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
    forward, kept = _scan_forward(op, halves.known, residuals)

    builder = PullbackBuilder(op, live, forward.out_types[m:])
    loop = _ScanBuilder(builder)
    value_of = dict(enumerate(builder.ins)) | dict(zip((*kept.stacked, *kept.hoisted), builder.residuals, strict=True))
    saved = _saved_inputs(loop, groups, kept, {i: (value_of[i], halves.known.types[i]) for i in residuals})
    carry_types = {i: tangent_type(strong(body.out_types[i - nc])) for i in varied.carry}
    carry = [loop.carry(builder.cotangent(i - nc), type) for i, type in carry_types.items()]
    sum_types = {
        i: tangent_type(body.in_types[i]) for i, at in zip(varied.consts, joint.results, strict=False) if at is not None
    }
    sums = [loop.carry(zeros(builder, type), type) for type in sum_types.values()]
    ys = [loop.x(builder.cotangents[k], tangent_type(body.out_types[k])) for k in range(nk, m) if live[k]]

    derived = loop.body.splice(halves.unknown, [*(saved[i] for i in residuals), *carry, *ys])
    cts = {i: derived[at] for i, at in zip(varied.all, joint.results, strict=True) if at is not None}
    before = [cts[i] if i in cts else zeros(loop.body, type) for i, type in carry_types.items()]
    totals = [add(loop.body, total, cts[i]) for i, total in zip(sum_types, sums, strict=True)]
    xs = [i for i in varied.xs if i in cts]
    params = {name: op.params[name] for name in ("length", "unroll")} | {"reverse": not op.params["reverse"]}
    carries, stacked = loop.finish([*before, *totals], [cts[i] for i in xs], params)
    gradients = dict(zip([*varied.carry, *sum_types, *xs], [*carries, *stacked], strict=True))
    return builder.adjoint(forward, gradients, needs)


def _saved_inputs(
    loop: _ScanBuilder, groups: _Groups, kept: "_Kept", residuals: Mapping[int, tuple[int, ShapedArray]]
) -> dict[int, int]:
    """The inputs of a backward scan's body for what the forward one saved: by number there, a value and its type."""
    by_step = {i for i in residuals if i in kept.stacked or i in groups.xs}
    in_order = sorted(residuals, key=groups.xs.__contains__)
    return {i: (loop.x if i in by_step else loop.const)(*residuals[i]) for i in in_order}


@frozen
class _Kept:
    """What a forward scan keeps for the backward one, by numbers of its body: a value per step, or one for all."""

    stacked: list[int]
    hoisted: list[int]


def _scan_forward(op: Op, known: Graph, residuals: Sequence[int]) -> tuple[Graph, _Kept]:
    """The forward graph: the outputs, then the residuals that it keeps (see the NOTE)."""
    groups, m = _groups(op), len(op.out_types)
    nc = len(groups.consts)
    invariant = _depends_only_on(known, nc)
    kept = _Kept(
        [i for i in residuals if i not in invariant and i not in groups.xs],
        [i for i in residuals if i in invariant and i not in groups.consts],
    )
    builder = Builder(op.in_types)
    body = _with_outputs(known, [*known.outputs[:m], *kept.stacked])
    first = builder.emit(intern(scan, {**op.params, "body": body}, op.in_types), tuple(builder.inputs))
    before_loop = without_inputs(
        _with_outputs(known, kept.hoisted), [i in groups.consts for i in range(len(op.in_types))]
    )
    hoisted = builder.splice(before_loop, builder.inputs[:nc])
    return builder.finish([*range(first, first + m + len(kept.stacked)), *hoisted]), kept


def _with_outputs(graph: Graph, outputs: Sequence[int]) -> Graph:
    """The graph with these of its values as outputs."""
    builder = Builder(graph.in_types)
    return builder.finish(builder.splice(evolve(graph, outputs=tuple(outputs)), builder.inputs))


def _depends_only_on(graph: Graph, n: int) -> set[int]:
    """The values that depend on the first ``n`` inputs (and constants) only."""
    early = {*range(n), *range(len(graph.in_types), len(graph.in_types) + len(graph.consts))}
    for node, outs in graph.numbered():
        if not node.op.effects and early.issuperset(node.inputs):
            early.update(outs)
    return early


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
