"""Derivatives of calls of which only the name is known: of these, too, only the names and the types are."""

from collections.abc import Sequence
from typing import Any, NoReturn

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.named_call import named_call
from fgrad.graph.op import Op, intern
from fgrad.jaxcore import ShapedArray
from fgrad.passes.local import Adjoint, tangent_type
from fgrad.rules.kinds import Region, define


def _call(builder: Builder, label: str, args: Sequence[int], results: Sequence[ShapedArray]) -> range:
    params = {"label": label, "results": tuple(results), "saved": ()}
    op = intern(named_call, params, [builder.types[i] for i in args])
    first = builder.emit(op, tuple(args))
    return range(first, first + len(results))


def _forward(op: Op, kept: Sequence[ShapedArray]) -> Graph:
    """The call, which also gives what is kept."""
    builder = Builder(op.in_types)
    return builder.finish(_call(builder, op.params["label"], builder.inputs, [*op.out_types, *kept]))


def _adjoint(op: Op, needs: tuple[bool, ...], live: tuple[bool, ...]) -> Adjoint:
    saved, n, m = op.params["saved"], len(op.in_types), len(op.out_types)
    kept = [x for x in saved if not isinstance(x, int)]
    cotangents = [tangent_type(t) for t, is_live in zip(op.out_types, live, strict=True) if is_live]
    builder = Builder([*op.in_types, *op.out_types, *kept, *cotangents])
    known = [builder.inputs[x] for x in saved if isinstance(x, int)]
    wanted = [tangent_type(t) for t, needed in zip(op.in_types, needs, strict=True) if needed]
    outs = _call(builder, f"{op.params['label']}.backward", [*known, *builder.inputs[n + m :]], wanted)
    return Adjoint(_forward(op, kept), builder.finish(outs), tuple(range(len(wanted))))


def _refuse(op: Op, *_: Any) -> NoReturn:
    reason = (
        "its program was not recorded, so forward mode has nothing to follow. Way out: torch.func.jvp of the function "
        "that calls it, which runs its jvp."
    )
    raise errors.undefined(op.params["label"], reason)


define("named_call", Region(adjoint=_adjoint, tangents=_refuse))
