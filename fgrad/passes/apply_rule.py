"""Applying a rule to one operation, in either mode: its lax code is recorded into a graph.

What a rule reads of inputs and outputs is known from that graph: the values that it uses.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from fgrad import errors
from fgrad.graph.op import Op
from fgrad.graph.regions import is_inexact
from fgrad.graph.source import is_hidden
from fgrad.jaxcore import ShapedArray, varying_axes
from fgrad.passes.dependence import of_integers, rule_of
from fgrad.passes.local import Local, tangent_type
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import Bilinear, Elementwise, General, Linear, Rule, Undefined


def apply_vjp(
    op: Op,
    rule: Rule,
    wanted: Sequence[int],
    ins: Sequence[Any],
    outs: Sequence[Any],
    live_cts: Sequence[Any],
    live: Sequence[bool],
) -> dict[int, Any]:
    exact = of_integers([op.in_types[i] for i in wanted])
    cts = _spread(live_cts, live, op.out_types, exact)
    multiple = op.primitive.multiple_results
    ct = tuple(cts) if multiple else cts[0]
    out = tuple(outs) if multiple else outs[0]
    match rule:
        case Elementwise(scales):
            scales = _per_argument(scales, len(ins))
            return {
                i: None if scales[i] is None else _unbroadcast(scales[i](ct, out, *ins, **op.params), ins[i])
                for i in wanted
            }
        case Linear(transpose):
            input_cts = _as_tuple(transpose(ct, *ins, **op.params), len(ins))
            linear = range(len(ins)) if exact else linear_args(rule, op)
            return {i: input_cts[i] if i in linear else None for i in wanted}
        case Bilinear(lhs, rhs):
            return {i: (lhs, rhs)[i](ct, ins[0], ins[1], **op.params) if i < 2 else None for i in wanted}
        case General(vjp) if vjp is not None:
            input_cts = _as_tuple(vjp(ct, out, *ins, **op.params), len(ins))
            return {i: input_cts[i] for i in wanted}
        case Undefined(reason):
            raise errors.undefined(op.name, reason)
        case _:
            return dict.fromkeys(wanted)


def apply_jvp(
    op: Op, rule: Rule, varied: Sequence[int], ins: Sequence[Any], outs: Sequence[Any], tangents: Sequence[Any]
) -> Sequence[Any]:
    by_arg = dict(zip(varied, tangents, strict=True))
    multiple = op.primitive.multiple_results
    out = tuple(outs) if multiple else outs[0]
    match rule:
        case Elementwise(scales):
            scales = _per_argument(scales, len(ins))
            shape = op.out_types[0].shape
            terms = [
                scales[i](_broadcast(t, shape), out, *ins, **op.params)
                for i, t in by_arg.items()
                if scales[i] is not None
            ]
            return [_total(terms)]
        case Linear():
            linear = linear_args(rule, op)
            if not any(i in linear for i in varied):
                return [None] * len(outs)
            args = [by_arg.get(i, _zeros(tangent_type(x.aval))) if i in linear else x for i, x in enumerate(ins)]
            tangent = op.primitive.bind(*args, **op.params)
            return tangent if multiple else [tangent]
        case Bilinear():
            terms = []
            for i, t in by_arg.items():
                if i < 2:
                    args = list(ins)
                    args[i] = t
                    terms.append(op.primitive.bind(*args, **op.params))
            return [_total(terms)]
        case General(_, jvp) if jvp is not None:
            tangents = tuple([by_arg.get(i) for i in range(len(ins))])
            tangent = jvp(tangents, out, *ins, **op.params)
            return tangent if multiple else [tangent]
        case Undefined(reason):
            raise errors.undefined(op.name, reason)
        case _:
            return [None] * len(outs)


def linear_args(rule: Linear, op: Op) -> Sequence[int]:
    """The positions in which a linear primitive is linear."""
    if rule.args is not None:
        return rule.args
    return [i for i, t in enumerate(op.in_types) if is_inexact(t)]


def _per_argument(scales: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    return scales if len(scales) >= n else (*scales, *[None] * (n - len(scales)))


def _as_tuple(result: Any, n: int) -> Sequence[Any]:
    if isinstance(result, tuple | list):
        return [*result, *[None] * (n - len(result))]
    return [result, *[None] * (n - 1)]


def _total(terms: Sequence[Any]) -> Any:
    terms = [t for t in terms if t is not None]
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = lax.add(total, term)
    return total


def _zeros(type: ShapedArray) -> Any:
    filled = lax.full(type.shape, 0, type.dtype)
    axes = varying_axes(type)
    return lax.pcast(filled, axes, to="varying") if axes else filled


def _spread(live_cts: Sequence[Any], live: Sequence[bool], types: Sequence[ShapedArray], exact: bool) -> list[Any]:
    given = iter(live_cts)
    return [
        next(given) if yes else _zeros(t) if exact or is_inexact(t) else None
        for yes, t in zip(live, types, strict=True)
    ]


def _broadcast(t: Any, shape: tuple[int, ...]) -> Any:
    return (
        t
        if t.shape == shape
        else lax.broadcast(t, shape)
        if t.ndim == 0
        else lax.broadcast_in_dim(t, shape, range(t.ndim))
    )


def _unbroadcast(ct: Any, x: Any) -> Any:
    if ct is None or ct.shape == x.shape:
        return ct
    if x.ndim == 0:
        return _sum(ct, tuple(range(ct.ndim)))
    axes = tuple([i for i, (a, b) in enumerate(zip(ct.shape, x.shape, strict=True)) if a != b])
    return lax.reshape(_sum(ct, axes), x.shape)


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return lax.reduce_sum(x, axes)


def recorded(
    function: Callable[..., list[Any]],
    in_types: Sequence[ShapedArray],
    expected: Sequence[ShapedArray],
    op: Op,
) -> Local:
    """Stage a rule; its ``None`` results become symbolic zeros, its other results are checked against ``expected``."""
    results: list[int | None] = []

    def values(*flat: Any) -> list[Any]:
        outputs = []
        for value, type in zip(function(*flat), expected, strict=True):
            if value is None:
                results.append(None)
                continue
            if value.shape != type.shape or value.dtype != type.dtype:
                raise _bad_rule(op, value.aval.str_short(), type.str_short())
            results.append(len(outputs))
            outputs.append(value)
        return outputs

    graph = stage_closed(values, in_types)
    return Local(graph, tuple(results))


def _bad_rule(op: Op, got: str, expected: str) -> Exception:
    """The error of a rule that returns another type; with its line if it is the user's."""
    error = errors.bad_rule(op.name, got, expected)
    rule = rule_of(op)
    for kind in ("vjp", "jvp", "transpose"):
        function = inspect.unwrap(getattr(rule, kind, None) or _bad_rule)
        code = getattr(function, "__code__", None)
        if code is not None and not is_hidden(code):
            errors.in_rule(error, kind, op.name, function)
    return error
