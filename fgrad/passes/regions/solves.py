"""``custom_linear_solve``: the derivative of a solution by the implicit function theorem, never through the solver.

From A x = b follow A dx = db - dA x and, for a cotangent of x, w = A^-T ct: w for b and -(dA^T w) for A.
"""

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import linear_solve
from fgrad.jaxcore import primitive
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, add, tangent_type, zeros
from fgrad.passes.simplify import simplify
from fgrad.passes.vjp import vjp
from fgrad.rules.kinds import Region, define


def _negated(builder: Builder, number: int) -> int:
    return builder.emit(intern(primitive("neg"), {}, (builder.types[number],)), (number,))


def _sizes(op: Op) -> tuple[int, int, int]:
    """How many constants the matvec reads, where b starts, how many arrays it is."""
    lengths = op.params["lengths"]
    start = sum(lengths)
    return lengths[0], start, len(op.in_types) - start


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    k, start, nb = _sizes(op)
    matvec: Graph = op.params["matvec"]
    n = len(op.in_types)
    builder = Builder([*op.in_types, *(tangent_type(t) for t, yes in zip(op.in_types, live, strict=True) if yes)])
    given = dict(zip([i for i, yes in enumerate(live) if yes], builder.inputs[n:], strict=True))
    first = builder.emit(op, tuple(builder.inputs[:n]))
    xs = list(range(first, first + nb))
    rhs: list[int | None] = [given.get(start + j) for j in range(nb)]
    consts = [i for i in range(k) if live[i]]
    if consts:
        joint = jvp(matvec, consts)
        outs = builder.splice(joint.graph, [*builder.inputs[:k], *xs, *(given[i] for i in consts)])
        for j in range(nb):
            r = joint.results[j]
            if r is not None:
                moved = _negated(builder, outs[len(matvec.outputs) + r])
                held = rhs[j]
                rhs[j] = moved if held is None else add(builder, held, moved)
    m = len(op.out_types)
    if all(x is None for x in rhs):
        return Local(builder.finish(range(first, first + m)), (None,) * m)
    full = [x if x is not None else zeros(builder, tangent_type(builder.types[xs[j]])) for j, x in enumerate(rhs)]
    ins = (*builder.inputs[:start], *full)
    solve = intern(linear_solve, op.params, [builder.types[i] for i in ins])
    at = builder.emit(solve, ins)
    results = tuple([j if j < nb else None for j in range(m)])
    return Local(builder.finish([*range(first, first + m), *range(at, at + nb)]), results)


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    k, start, nb = _sizes(op)
    p = op.params
    if p["transpose_solve"] is None:
        raise errors.undefined(
            op.name, "it was given no transpose_solve; pass one, or symmetric=True, to lax.custom_linear_solve"
        )
    n, m = len(op.in_types), len(op.out_types)
    forward = Builder(op.in_types)
    first = forward.emit(op, tuple(forward.inputs))
    keep = forward.finish(range(first, first + m))
    ct_types = [tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes]
    builder = Builder([*op.in_types, *op.out_types, *ct_types])
    given = dict(zip([j for j in range(m) if live[j]], builder.inputs[n + m :], strict=True))
    cts = [given[j] if j in given else zeros(builder, tangent_type(builder.types[n + j])) for j in range(nb)]
    a, b, c, d = p["lengths"]
    at = builder.inputs
    swapped = (*at[a : a + b], *at[:a], *at[a + b + c : start], *at[a + b : a + b + c])
    params = {
        "matvec": p["vecmat"], "vecmat": p["matvec"], "solve": p["transpose_solve"], "transpose_solve": p["solve"],
        "lengths": (b, a, d, c),
    }  # fmt: skip
    ins = (*swapped, *cts)
    solve = intern(linear_solve, params, [builder.types[i] for i in ins])
    w = builder.emit(solve, ins)
    place = {start + j: w + j for j in range(nb) if needs[start + j]}
    consts = [i for i in range(k) if needs[i]]
    if consts:
        matvec: Graph = p["matvec"]
        joint = vjp(matvec, consts)
        outs = builder.splice(
            simplify(joint.graph), [*at[:k], *range(n, n + nb), *(_negated(builder, w + j) for j in range(nb))]
        )
        for i, r in zip(consts, joint.results, strict=True):
            if r is not None:
                place[i] = outs[len(matvec.outputs) + r]
    wanted = [i for i, yes in enumerate(needs) if yes]
    found = [i for i in wanted if i in place]
    index = {i: j for j, i in enumerate(found)}
    return Adjoint(keep, builder.finish([place[i] for i in found]), tuple([index.get(i) for i in wanted]))


define("custom_linear_solve", Region(adjoint=_adjoint, tangents=_tangents))
