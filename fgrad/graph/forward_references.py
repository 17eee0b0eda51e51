"""A ``custom_jvp`` that takes references: its function and its rule, with these threaded through.

What a reference holds is one more argument and one more result of the call, and what the reference of its tangent holds
one more tangent of each: NOTE [References are threaded through].
"""

from collections.abc import Sequence
from typing import Any

from fgrad import errors
from fgrad.graph.discharge import without_tokens
from fgrad.graph.graph import Builder, Const, Graph, applied
from fgrad.graph.importing import custom_jvp_op, label_of, ruled_by, threaded, thunk_key, zeros_const
from fgrad.graph.references import THREADED, Threaded, value_type
from fgrad.graph.regions import Deferred, DeferredByZeros
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import is_inexact, is_reference


def _function(primal: Threaded, references: Sequence[int]) -> Graph:
    """The function's results, and then what all references hold, also those that it does not write."""
    builder = Builder(primal.graph.in_types)
    outs = builder.splice(primal.graph, builder.inputs)
    first = len(outs) - len(primal.written)
    finals = dict(zip(primal.written, outs[first:], strict=True))
    return builder.finish([*outs[:first], *(finals.get(i, builder.inputs[i]) for i in references)])


def _rule(
    params: dict[str, Any],
    types: Sequence[ShapedArray],
    function: Graph,
    references: Sequence[int],
    live: Sequence[bool],
) -> Graph:
    """The rule on primals and the tangents of the inexact ones; it returns the results and their tangents."""
    n = len(types)
    # a reference always has a tangent, that of integers one of float0
    passed = [
        i in references or (is_live and is_inexact(t)) for i, (t, is_live) in enumerate(zip(types, live, strict=True))
    ]
    jaxpr, consts, zeros = params["jvp_jaxpr_fun"].call_wrapped(*[not each for each in passed])
    rule = without_tokens(threaded(jaxpr))

    builder = Builder([*types, *(t for t in types if is_inexact(t))])
    given = iter(builder.inputs[n:])
    tangents = {i: next(given) if is_inexact(t) else None for i, t in enumerate(types)}
    constants = [builder.const(Const.of(c)) for c in consts]
    inputs = [*constants, *builder.inputs[:n]]
    positions = {}
    for i, tangent in tangents.items():
        if passed[i]:
            positions[i] = len(inputs)
            type = rule.graph.in_types[len(inputs)]
            inputs.append(builder.const(zeros_const(type)) if tangent is None else tangent)
    outs = builder.splice(rule.graph, inputs)

    first = len(outs) - len(rule.written)
    new = dict(zip(rule.written, outs[first:], strict=True))
    m = len(function.outputs) - len(references)
    moved = iter(outs[m:first])
    out_tangents = [None if zero else next(moved) for zero in zeros]
    finals = [new.get(len(constants) + i, builder.inputs[i]) for i in references]
    final_tangents = [new.get(positions[i], tangents[i]) for i in references]
    return builder.finish([
        *outs[:m], *finals,
        *(
            builder.const(zeros_const(t)) if number is None else number
            for t, number in zip(function.out_types, [*out_tangents, *final_tangents], strict=True)
            if is_inexact(t)
        ),
    ])  # fmt: skip


def _custom_jvp(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    n, values = params["num_consts"], [value_type(t) for t in types]
    references = [i for i, t in enumerate(types) if is_reference(t)]
    if any(i < n for i in references):
        raise errors.mutable_reference("custom_jvp_call")
    function = _function(without_tokens(threaded(params["call_jaxpr"])), references)
    own = [i - n for i in references]

    def rule(live: Sequence[bool] = tuple(map(is_inexact, values[n:]))) -> Graph:
        return _rule(params, values[n:], function, own, live)

    thunk = params["jvp_jaxpr_fun"]
    deferred = Deferred(("jvp", thunk_key(thunk, values[n:]), tuple(own)), rule)
    if params.get("symbolic_zeros"):
        deferred = DeferredByZeros(deferred, rule)
    op = custom_jvp_op(ruled_by(thunk, function), n, deferred, label_of(params["call_jaxpr"], thunk), values)
    return Threaded(applied(op), tuple(references))


THREADED["custom_jvp_call"] = _custom_jvp
