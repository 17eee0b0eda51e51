"""Derivatives of one operation as small graphs, recorded from its rule.

A *pull-back* maps (inputs, outputs, cotangents) to input cotangents; a *push-forward* maps (inputs, outputs,
tangents) to output tangents.  The passes splice them in.  A region (a loop, a branch) is differentiated together with
its values: its push-forward maps (inputs, live tangents) to (outputs, tangents); its reverse mode is an ``Adjoint``.

A rule is lax code.  Which inputs and outputs it reads, and so which must be saved, shows in the recorded graph.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import lax

from fgrad import errors
from fgrad.graph.graph import Builder, Const, Graph, unsourced
from fgrad.graph.op import Op, filling, intern
from fgrad.graph.source import is_hidden
from fgrad.jaxcore import ShapedArray, primitive
from fgrad.jaxtypes import (
    extended_rules,
    is_inexact,
    strong,
    varying_axes,
    zeros_of,
)
from fgrad.passes.dependence import of_integers, rule_of
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import Bilinear, Elementwise, General, Linear, Rule, Undefined


@frozen(eq=False)
class Local:
    """A pull-back or push-forward: ``graph`` and, for each wanted result, the index of its output or None for zero."""

    graph: Graph
    results: tuple[int | None, ...]


@frozen(eq=False)
class Adjoint:
    """Reverse mode of a region: ``forward`` maps inputs to (outputs, residuals); ``backward`` maps (inputs, outputs,
    residuals, live cotangents) to input cotangents, at the indices in ``results``."""

    forward: Graph
    backward: Graph
    results: tuple[int | None, ...]


def tangent_type(type: ShapedArray) -> ShapedArray:
    """The type of the (co)tangents of a value."""
    return strong(type)


class PushforwardBuilder(Builder):
    """Builds the push-forward of a region; its inputs are the operation's inputs and the tangents of the live ones."""

    def __init__(self, op: Op, live: Sequence[bool]):
        super().__init__(op.in_types)
        self.ins: list[int] = self.inputs[:]
        #: by position among the operation's inputs
        self.tangents: dict[int, int] = {
            i: self.input(tangent_type(op.in_types[i])) for i, is_live in enumerate(live) if is_live
        }

    def tangent(self, i: int) -> int:
        """The tangent of an input, zeros where it has none."""
        return self.tangents[i] if i in self.tangents else zeros(self, tangent_type(self.types[self.ins[i]]))

    def pushed(self, outs: Sequence[int], tangents: Mapping[int, int]) -> Local:
        """The push-forward with these outputs, and tangents by the position of their output."""
        live = [k for k in range(len(outs)) if k in tangents]
        index = {k: i for i, k in enumerate(live)}
        graph = self.finish([*outs, *(tangents[k] for k in live)])
        return Local(graph, tuple([index.get(k) for k in range(len(outs))]))


class PullbackBuilder(Builder):
    """Builds the backward graph of a region; its inputs are those of ``Adjoint.backward``."""

    def __init__(self, op: Op, live: Sequence[bool], residuals: Sequence[ShapedArray] = ()):
        n, m = len(op.in_types), len(op.out_types)
        super().__init__([*op.in_types, *op.out_types, *residuals])
        self.ins: list[int] = self.inputs[:n]
        self.outs: list[int] = self.inputs[n : n + m]
        self.residuals: list[int] = self.inputs[n + m :]
        #: by position among the operation's outputs
        self.cotangents: dict[int, int] = {
            k: self.input(tangent_type(op.out_types[k])) for k, is_live in enumerate(live) if is_live
        }

    def cotangent(self, k: int) -> int:
        """The cotangent of an output, zeros where it has none."""
        return self.cotangents[k] if k in self.cotangents else zeros(self, tangent_type(self.types[self.outs[k]]))

    def adjoint(self, forward: Graph, cotangents: Mapping[int, int], needs: Sequence[bool]) -> Adjoint:
        """The adjoint whose backward graph returns these cotangents, by the position of their input."""
        wanted = [i for i, needed in enumerate(needs) if needed]
        live = [i for i in wanted if i in cotangents]
        index = {i: k for k, i in enumerate(live)}
        return Adjoint(forward, self.finish([cotangents[i] for i in live]), tuple([index.get(i) for i in wanted]))


def add(builder: Builder, a: int, b: int, source: Any = None) -> int:
    """Emit the sum of two (co)tangents."""
    if (rules := extended_rules(builder.types[a])) is not None:
        dtype = builder.types[a].dtype
        graph = stage_closed(lambda x, y: [rules.add(dtype, x, y)], [builder.types[a], builder.types[b]])
        return builder.splice(graph, [a, b])[0]
    op = intern(primitive("add_any"), {}, (builder.types[a], builder.types[b]))
    return builder.emit(op, (a, b), source)


def zeros(builder: Builder, type: ShapedArray) -> int:
    """Emit zeros of a type."""
    if extended_rules(type) is not None:
        return builder.splice(stage_closed(lambda: [_zeros(type)], []), [])[0]
    return filled(builder, 0, type)


def filled(builder: Builder, value: float, type: ShapedArray) -> int:
    """Emit a constant-filled array of a type."""
    number = builder.const(Const(np.full((), value, type.dtype), ShapedArray((), type.dtype)))
    if type.shape:
        number = builder.emit(filling(type, builder.types[number]), (number,))
    if axes := varying_axes(type):  # inside a shard_map
        vary = stage_closed(lambda x: [lax.pcast(x, axes, to="varying")], [builder.types[number]])
        (number,) = builder.splice(vary, [number])
    return number


# --------------------------------------------------------------------------------------------------------------------
# applying a rule to one operation


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
    """The positions of the arguments in which a primitive is linear."""
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
    filled = zeros_of(type)
    axes = varying_axes(type)
    return lax.pcast(filled, axes, to="varying") if axes else filled


def _spread(live_cts: Sequence[Any], live: Sequence[bool], types: Sequence[ShapedArray], exact: bool) -> list[Any]:
    cotangents = iter(live_cts)
    return [
        next(cotangents) if is_live else _zeros(t) if exact or is_inexact(t) else None
        for is_live, t in zip(live, types, strict=True)
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
    """Stage a rule.  Its ``None`` results become symbolic zeros; the others are checked against ``expected``."""
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

    # the line that asks for a derivative is not where its operations belong
    graph = unsourced(stage_closed(values, in_types))
    return Local(graph, tuple(results))


def _bad_rule(op: Op, got: str, expected: str) -> Exception:
    """The error of a rule that returns the wrong type, with the rule's line if it is the user's."""
    error = errors.bad_rule(op.name, got, expected)
    rule = rule_of(op)
    for kind in ("vjp", "jvp", "transpose"):
        function = inspect.unwrap(getattr(rule, kind, None) or _bad_rule)
        code = getattr(function, "__code__", None)
        if code is not None and not is_hidden(code):
            errors.in_rule(error, kind, op.name, function)
    return error
