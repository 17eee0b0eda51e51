"""``linear_call``: forward mode calls the function again, on tangents; reverse mode calls the user's transpose.

The transpose is itself a ``linear_call``, whose transpose is the function.
"""

from fgrad import errors
from fgrad.graph.graph import applied
from fgrad.graph.importing import linear_call_op
from fgrad.graph.op import Op
from fgrad.graph.regions import Deferred
from fgrad.passes.local import Adjoint, Local, PullbackBuilder, PushforwardBuilder
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
    builder = PushforwardBuilder(op, live)
    ins = (*builder.ins[:n], *map(builder.tangent, range(n, len(op.in_types))))
    pushed = linear_call_op(op.params["call"], op.params["rule"], n, [builder.types[i] for i in ins])
    first = builder.emit(op, tuple(builder.ins))
    second = builder.emit(pushed, ins)
    return builder.pushed(range(first, first + m), {k: second + k for k in range(m)})


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    n = _residuals(op, needs)
    call = op.params["call"]
    builder = PullbackBuilder(op, live)
    ins = (*builder.ins[:n], *map(builder.cotangent, range(len(op.out_types))))
    transposed = Deferred(("transposed", op.params["rule"].key, call), lambda: call)
    pulled = linear_call_op(op.params["rule"](), transposed, n, [builder.types[i] for i in ins])
    first = builder.emit(pulled, ins)
    return builder.adjoint(applied(op), {i: first + i - n for i in range(n, len(op.in_types))}, needs)


define("linear_call", Region(adjoint=_adjoint, tangents=_tangents))
