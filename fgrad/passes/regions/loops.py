"""Loops: ``scan`` in both modes, ``while`` in forward mode.

NOTE [Reverse mode of a scan]
The forward scan also stacks, per step, the residuals that the body's pull-back reads; the backward scan runs over
them in the opposite direction, carrying the cotangent of the carry and the running sums of the constants' cotangents.
Of the residuals, those that are constants of the loop are passed as constants, those that are slices of the xs are
read from the xs, and those that depend on constants only are worked out once, outside.  Only the rest is stacked.
"""

from collections.abc import Sequence

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import scan, strong, while_
from fgrad.jaxcore import ShapedArray
from fgrad.passes.dependence import passed_on_by
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, add, tangent_type, zeros
from fgrad.passes.partition import partition
from fgrad.passes.simplify import simplify
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


def _split_scan(op: Op, live: Sequence[bool]) -> tuple[list[int], list[bool], list[int]]:
    """The varied constants, which carries vary, the varied xs: positions among the body's inputs."""
    nc, nk = op.params["num_consts"], op.params["num_carry"]
    consts = [i for i in range(nc) if live[i]]
    xs = [i for i in range(nc + nk, len(live)) if live[i]]
    return consts, _varied_carry(op.params["body"], consts, list(live[nc : nc + nk]), xs, nc), xs


def _scan_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    p = op.params
    body, nc, nk = p["body"], p["num_consts"], p["num_carry"]
    consts, carried, xs = _split_scan(op, live)
    carry = [i for i in range(nk) if carried[i]]
    joint = jvp(body, [*consts, *(nc + i for i in carry), *xs])
    n, m = len(body.in_types), len(body.outputs)
    # reorder the body's inputs to (consts, t_consts, carry, t_carry, xs, t_xs) and its outputs likewise
    types = [tangent_type(body.in_types[i]) for i in (*consts, *(nc + i for i in carry), *xs)]
    a, b = len(consts), len(consts) + len(carry)
    builder = Builder(
        [
            *body.in_types[:nc],
            *types[:a],
            *body.in_types[nc : nc + nk],
            *types[a:b],
            *body.in_types[nc + nk :],
            *types[b:],
        ]
    )
    at = builder.inputs
    c0, k0, x0 = nc + a, nc + a + nk + len(carry), len(at) - len(xs)
    primal = [*at[:nc], *at[c0 : c0 + nk], *at[k0:x0]]
    tangent = [*at[nc:c0], *at[c0 + nk : k0], *at[x0:]]
    outs = builder.splice(simplify(joint.graph), [*primal, *tangent])

    def of(k: int) -> int:
        r = joint.results[k]
        return zeros(builder, tangent_type(body.out_types[k])) if r is None else outs[m + r]

    ys = [k for k in range(nk, m) if joint.results[k] is not None]
    new_body = builder.finish([*outs[:nk], *(of(i) for i in carry), *outs[nk:m], *(of(k) for k in ys)])
    whole = Builder([*op.in_types, *(tangent_type(t) for t, yes in zip(op.in_types, live, strict=True) if yes)])
    given = dict(zip([i for i, yes in enumerate(live) if yes], whole.inputs[n:], strict=True))
    ins = [
        *whole.inputs[:nc], *(given[i] for i in consts),
        *whole.inputs[nc : nc + nk],
        *(given[nc + i] if nc + i in given else zeros(whole, tangent_type(op.in_types[nc + i])) for i in carry),
        *whole.inputs[nc + nk : n], *(given[i] for i in xs),
    ]  # fmt: skip
    params = {**p, "body": new_body, "num_consts": nc + len(consts), "num_carry": nk + len(carry)}
    region = intern(scan, params, [whole.types[i] for i in ins])
    first = whole.emit(region, tuple(ins))
    at_y = first + nk + len(carry)
    outputs = [*range(first, first + nk), *range(at_y, at_y + m - nk)]
    tangents = [*range(first + nk, at_y), *range(at_y + m - nk, first + len(region.out_types))]
    place = {k: i for i, k in enumerate([*carry, *ys])}
    return Local(whole.finish([*outputs, *tangents]), tuple([place.get(k) for k in range(m)]))


def _scan_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    p = op.params
    body: Graph = p["body"]
    nc, nk, length = p["num_consts"], p["num_carry"], p["length"]
    n, m = len(op.in_types), len(op.out_types)
    consts, carried, xs = _split_scan(op, needs)
    carry = [i for i in range(nk) if carried[i]]
    wrt = [*consts, *(nc + i for i in carry), *xs]
    body_live = [*carried, *live[nk:]]
    joint = vjp(body, wrt, body_live)
    whole = simplify(joint.graph)
    halves = partition(whole, list(range(n, len(whole.in_types))), [k >= m for k in range(len(whole.outputs))])

    # where each residual comes from
    known = halves.known
    invariant = _depends_only_on(known, nc)
    residual_numbers = known.outputs[m:]
    stacked = [i for i in residual_numbers if i >= nc and not (nc + nk <= i < n) and i not in invariant]
    hoisted = [i for i in residual_numbers if i >= n and i in invariant]
    stacked, hoisted = list(dict.fromkeys(stacked)), list(dict.fromkeys(hoisted))

    # forward: the scan with the residuals among its ys, and the invariant ones computed once
    types = known.types
    forward_body = Graph(known.in_types, known.consts, known.nodes, (*known.outputs[:m], *stacked))
    builder = Builder(op.in_types)
    region = intern(scan, {**p, "body": _pruned(forward_body)}, op.in_types)
    first = builder.emit(region, tuple(builder.inputs))
    once = Graph(known.in_types, known.consts, known.nodes, tuple(hoisted))
    pre = Builder(known.in_types)
    pre_graph = pre.finish(pre.splice(once, pre.inputs), pre.inputs[:nc])
    hoisted_at = builder.splice(pre_graph, builder.inputs[:nc])
    forward = builder.finish([*range(first, first + m + len(stacked)), *hoisted_at])

    # backward: one step of the opposite scan
    res_types = [types[i] for i in residual_numbers]
    const_res = [k for k, i in enumerate(residual_numbers) if i not in stacked and not (nc + nk <= i < n)]
    x_res = [k for k, i in enumerate(residual_numbers) if nc + nk <= i < n]
    s_res = [k for k, i in enumerate(residual_numbers) if i in stacked]
    carry_types = [tangent_type(strong(body.out_types[i])) for i in carry]
    acc = [j for j in range(len(consts)) if joint.results[j] is not None]
    acc_types = [tangent_type(body.in_types[consts[j]]) for j in acc]
    live_ys = [k for k in range(nk, m) if live[k]]
    y_types = [tangent_type(body.out_types[k]) for k in live_ys]
    step = Builder(
        [
            *(res_types[k] for k in const_res),
            *carry_types,
            *acc_types,
            *(res_types[k] for k in (*s_res, *x_res)),
            *y_types,
        ]
    )
    at = step.inputs
    a = len(const_res)
    b = a + len(carry)
    c = b + len(acc)
    d = c + len(s_res) + len(x_res)
    residual_at = dict(zip((*const_res, *s_res, *x_res), (*at[:a], *at[c:d]), strict=True))
    cts = step.splice(halves.unknown, [*(residual_at[k] for k in range(len(residual_numbers))), *at[a:b], *at[d:]])

    def ct(j: int, type: ShapedArray) -> int:
        r = joint.results[j]
        return zeros(step, type) if r is None else cts[r]

    out_carry = [ct(len(consts) + j, t) for j, t in enumerate(carry_types)]
    out_acc = [add(step, at[b + i], ct(j, acc_types[i])) for i, j in enumerate(acc)]
    x_at = [len(consts) + len(carry) + j for j in range(len(xs))]
    x_given = [j for j in x_at if joint.results[j] is not None]
    step_graph = step.finish([*out_carry, *out_acc, *(ct(j, tangent_type(body.in_types[wrt[j]])) for j in x_given)])

    back = Builder([
        *op.in_types, *op.out_types, *region.out_types[m:], *(types[i] for i in hoisted),
        *(tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes),
    ])  # fmt: skip
    at = back.inputs
    stack_at = dict(zip(stacked, at[n + m :], strict=False))
    hoist_at = dict(zip(hoisted, at[n + m + len(stacked) :], strict=False))
    given = dict(zip([k for k in range(m) if live[k]], at[n + m + len(stacked) + len(hoisted) :], strict=True))

    def source(i: int) -> int:
        return at[i] if i < n and i not in stack_at else stack_at[i] if i in stack_at else hoist_at[i]

    args = [
        *(source(residual_numbers[k]) for k in const_res),
        *(given[i] if i in given else zeros(back, t) for i, t in zip(carry, carry_types, strict=True)),
        *(zeros(back, t) for t in acc_types),
        *(source(residual_numbers[k]) for k in (*s_res, *x_res)),
        *(given[k] for k in live_ys),
    ]
    params = {
        "body": step_graph, "num_consts": a, "num_carry": len(carry) + len(acc), "length": length,
        "reverse": not p["reverse"], "unroll": p["unroll"],
    }  # fmt: skip
    reverse = intern(scan, params, [back.types[i] for i in args])
    first = back.emit(reverse, tuple(args))
    place: dict[int, int] = {}
    place.update({nc + i: first + j for j, i in enumerate(carry)})
    place.update({consts[j]: first + len(carry) + i for i, j in enumerate(acc)})
    place.update({wrt[j]: first + len(carry) + len(acc) + i for i, j in enumerate(x_given)})
    wanted = [i for i, yes in enumerate(needs) if yes]
    found = [i for i in wanted if i in place]
    index = {i: k for k, i in enumerate(found)}
    return Adjoint(forward, back.finish([place[i] for i in found]), tuple([index.get(i) for i in wanted]))


def _pruned(graph: Graph) -> Graph:
    builder = Builder(graph.in_types)
    return builder.finish(builder.splice(graph, builder.inputs))


def _depends_only_on(graph: Graph, n: int) -> set[int]:
    """The values that depend on the first ``n`` inputs (and constants) only."""
    k = len(graph.in_types)
    early = set(range(n)) | set(range(k, k + len(graph.consts)))
    number = k + len(graph.consts)
    for node in graph.nodes:
        count = len(node.op.out_types)
        if not node.op.effects and early.issuperset(node.inputs):
            early.update(range(number, number + count))
        number += count
    return early


def _scan_varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    nc, nk = op.params["num_consts"], op.params["num_carry"]
    consts, carried, xs = _split_scan(op, needs)
    passed = passed_on_by(op.params["body"], [*consts, *(nc + i for i in range(nk) if carried[i]), *xs])
    return [*carried, *passed[nk:]]


define("scan", Region(adjoint=_scan_adjoint, tangents=_scan_tangents, varied=_scan_varied))


def _while_tangents(op: Op, live: tuple[bool, ...]) -> Local:
    p = op.params
    body: Graph = p["body"]
    nc, nb = p["cond_consts"], p["body_consts"]
    n, m = len(op.in_types), len(op.out_types)
    consts = [i for i in range(nb) if live[nc + i]]
    carried = _while_varied(op, live)
    carry = [i for i in range(m) if carried[i]]
    joint = jvp(body, [*consts, *(nb + i for i in carry)])
    types = [tangent_type(body.in_types[i]) for i in (*consts, *(nb + i for i in carry))]
    a = len(consts)
    builder = Builder([*body.in_types[:nb], *types[:a], *body.in_types[nb:], *types[a:]])
    at = builder.inputs
    outs = builder.splice(
        simplify(joint.graph), [*at[:nb], *at[nb + a : nb + a + m], *at[nb : nb + a], *at[nb + a + m :]]
    )
    tangents = []
    for i in carry:
        r = joint.results[i]
        tangents.append(zeros(builder, tangent_type(body.out_types[i])) if r is None else outs[m + r])
    new_body = builder.finish([*outs[:m], *tangents])
    cond: Graph = p["cond"]
    builder = Builder([*cond.in_types, *types[a:]])
    new_cond = builder.finish(builder.splice(cond, builder.inputs[: len(cond.in_types)]))
    whole = Builder([*op.in_types, *(tangent_type(t) for t, yes in zip(op.in_types, live, strict=True) if yes)])
    given = dict(zip([i for i, yes in enumerate(live) if yes], whole.inputs[n:], strict=True))
    start = nc + nb
    ins = [
        *whole.inputs[:start], *(given[nc + i] for i in consts), *whole.inputs[start:n],
        *(given[start + i] if start + i in given else zeros(whole, t) for i, t in zip(carry, types[a:], strict=True)),
    ]  # fmt: skip
    params = {"cond": new_cond, "body": new_body, "cond_consts": nc, "body_consts": nb + a}
    region = intern(while_, params, [whole.types[i] for i in ins])
    first = whole.emit(region, tuple(ins))
    place = {k: i for i, k in enumerate(carry)}
    return Local(whole.finish(range(first, first + len(region.out_types))), tuple([place.get(k) for k in range(m)]))


def _while_varied(op: Op, needs: tuple[bool, ...]) -> list[bool]:
    # What the condition reads decides only how many steps there are.
    nc, nb = op.params["cond_consts"], op.params["body_consts"]
    consts = [i for i in range(nb) if needs[nc + i]]
    return _varied_carry(op.params["body"], consts, needs[nc + nb :], [], nb)


def _while_adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    raise errors.reverse_while()


define("while", Region(adjoint=_while_adjoint, tangents=_while_tangents, varied=_while_varied))
