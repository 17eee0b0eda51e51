"""``custom_linear_solve``: the derivative of a solution by the implicit function theorem, never through the solver.

From A x = b follow A dx = db - dA x and, for a cotangent of x, w = A^-T ct: w for b and -(dA^T w) for A.
"""

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, applied
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import linear_solve
from fgrad.jaxcore import primitive
from fgrad.passes.jvp import jvp
from fgrad.passes.local import Adjoint, Local, PullbackBuilder, PushforwardBuilder, add, tangent_type, zeros
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
    builder = PushforwardBuilder(op, live)
    first = builder.emit(op, tuple(builder.ins))
    outs = range(first, first + len(op.out_types))
    rhs = {j: builder.tangents[start + j] for j in range(nb) if live[start + j]}
    consts = [i for i in range(k) if live[i]]
    if consts:
        joint = jvp(matvec, consts)
        spliced = builder.splice(joint.graph, [*builder.ins[:k], *outs[:nb], *(builder.tangents[i] for i in consts)])
        for j, at in enumerate(joint.results):
            if at is not None:
                moved = _negated(builder, spliced[len(matvec.outputs) + at])
                rhs[j] = add(builder, rhs[j], moved) if j in rhs else moved
    if not rhs:
        return builder.pushed(outs, {})
    full = [rhs[j] if j in rhs else zeros(builder, tangent_type(builder.types[outs[j]])) for j in range(nb)]
    ins = (*builder.ins[:start], *full)
    solved = builder.emit(intern(linear_solve, op.params, [builder.types[i] for i in ins]), ins)
    return builder.pushed(outs, {j: solved + j for j in range(nb)})


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    k, start, nb = _sizes(op)
    p = op.params
    if p["transpose_solve"] is None:
        raise errors.undefined(
            op.name, "it was given no transpose_solve; pass one, or symmetric=True, to lax.custom_linear_solve"
        )
    builder = PullbackBuilder(op, live)
    cts = [builder.cotangent(j) for j in range(nb)]
    a, b, c, d = p["lengths"]
    at = builder.ins
    swapped = (*at[a : a + b], *at[:a], *at[a + b + c : start], *at[a + b : a + b + c])
    params = {
        "matvec": p["vecmat"], "vecmat": p["matvec"], "solve": p["transpose_solve"], "transpose_solve": p["solve"],
        "lengths": (b, a, d, c),
    }  # fmt: skip
    ins = (*swapped, *cts)
    solve = intern(linear_solve, params, [builder.types[i] for i in ins])
    w = builder.emit(solve, ins)
    cotangents = {start + j: w + j for j in range(nb) if needs[start + j]}
    consts = [i for i in range(k) if needs[i]]
    if consts:
        matvec: Graph = p["matvec"]
        joint = vjp(matvec, consts)
        outs = builder.splice(
            simplify(joint.graph), [*at[:k], *builder.outs[:nb], *(_negated(builder, w + j) for j in range(nb))]
        )
        for i, r in zip(consts, joint.results, strict=True):
            if r is not None:
                cotangents[i] = outs[len(matvec.outputs) + r]
    return builder.adjoint(applied(op), cotangents, needs)


define("custom_linear_solve", Region(adjoint=_adjoint, tangents=_tangents))
