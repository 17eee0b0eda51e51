"""Loops: forward mode of ``scan`` and ``while``; ``scan_reverse.py`` has the other of ``scan``."""

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import while_
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PushforwardBuilder, tangent_type, zeros
from fgrad.passes.regions.scan_layout import ScanBuilder, ScanLayout, varied_carry
from fgrad.passes.regions.scan_reverse import scan_adjoint
from fgrad.passes.simplify import simplify
from fgrad.rules.kinds import Region, define


def _scan_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    body: Graph = op.params["body"]
    varied = ScanLayout.varied(op, live)
    joint = jvp(body, varied.all)
    nc, nk, m = op.params["num_consts"], op.params["num_carry"], len(body.outputs)
    builder = PushforwardBuilder(op, live)
    loop = ScanBuilder(builder)
    primals = loop.inputs(ScanLayout.of(op), builder.ins.__getitem__, body.in_types)
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


def _scan_varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    varied = ScanLayout.varied(op, needs)
    passed = passed_on_by(op.params["body"], varied.all)
    return [*(i in varied.carry for i in ScanLayout.of(op).carry), *passed[op.params["num_carry"] :]]


define("scan", Region(adjoint=scan_adjoint, tangents=_scan_tangents, varied=_scan_varied))


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
    return varied_carry(op.params["body"], consts, needs[nc + nb :], [], nb)


def _while_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    raise errors.reverse_while()


define("while", Region(adjoint=_while_adjoint, tangents=_while_tangents, varied=_while_varied))
