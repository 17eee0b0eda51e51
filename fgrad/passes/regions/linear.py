"""``linear_call``: forward mode calls the function again, on tangents; reverse mode calls the user's transpose.

The transpose is a ``linear_call`` in its turn, whose transpose is the function.
"""

from fgrad import errors
from fgrad.graph.graph import Builder
from fgrad.graph.importing import linear_call_op
from fgrad.graph.op import Op
from fgrad.graph.regions import Deferred
from fgrad.passes.local import Adjoint, Local, tangent_type, zeros
from fgrad.rules.kinds import Region, define


def _residuals(op: Op, moving: tuple[bool, ...]) -> int:
    """How many residuals there are; none of them may have a derivative."""
    n = op.params["num_consts"]
    if any(moving[:n]):
        raise errors.undefined(
            "linear_call",
            "its functions say what it is in its linear arguments and here one of its residual arguments is "
            "differentiated; apply fgrad.stop_gradient to that, or write the function without linear_call",
        )
    return n


def _tangents(op: Op, live: tuple[bool, ...]) -> Local:
    n, m = _residuals(op, live), len(op.out_types)
    builder = Builder([*op.in_types, *(tangent_type(t) for t, yes in zip(op.in_types, live, strict=True) if yes)])
    at = builder.inputs
    given = iter(at[len(op.in_types) :])
    moved = [
        next(given) if yes else zeros(builder, tangent_type(t))
        for t, yes in zip(op.in_types[n:], live[n:], strict=True)
    ]
    ins = (*at[:n], *moved)
    pushed = linear_call_op(op.params["call"], op.params["rule"], n, [builder.types[i] for i in ins])
    first = builder.emit(op, tuple(at[: len(op.in_types)]))
    second = builder.emit(pushed, ins)
    return Local(builder.finish([*range(first, first + m), *range(second, second + m)]), tuple(range(m)))


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    n, m, count = _residuals(op, needs), len(op.out_types), len(op.in_types)
    call = op.params["call"]
    forward = Builder(op.in_types)
    first = forward.emit(op, tuple(forward.inputs))
    builder = Builder(
        [*op.in_types, *op.out_types, *(tangent_type(t) for t, yes in zip(op.out_types, live, strict=True) if yes)]
    )
    at = builder.inputs
    given = iter(at[count + m :])
    cts = [next(given) if yes else zeros(builder, tangent_type(t)) for t, yes in zip(op.out_types, live, strict=True)]
    ins = (*at[:n], *cts)
    back = Deferred(("transposed", op.params["rule"].key, call), lambda: call)
    pulled = linear_call_op(op.params["rule"](), back, n, [builder.types[i] for i in ins])
    found = builder.emit(pulled, ins)
    wanted = [found + i - n for i in range(n, count) if needs[i]]
    return Adjoint(forward.finish(range(first, first + m)), builder.finish(wanted), tuple(range(len(wanted))))


define("linear_call", Region(adjoint=_adjoint, tangents=_tangents))
