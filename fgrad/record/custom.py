"""Calls of functions with custom rules, as a recording meets them: each becomes one operation that has its rule.

NOTE [Residuals that are known]
A residual that is no traced value (a Python number, a NumPy array) is part of the rule: the backward rule gets it as it
is, and nothing of it is saved.  So ``isinstance(residual, int)`` and ``residual is True`` say what they say under JAX.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from fgrad.graph.graph import Builder, Graph
from fgrad.graph.importing import custom_jvp_op, custom_vjp_op, rule_key, vjp_rule
from fgrad.graph.op import Kept, Op
from fgrad.graph.regions import Deferred, VjpRule, custom_vjp
from fgrad.graph.source import RawSource, here
from fgrad.jaxcore import (
    ShapedArray,
    Tracer as JaxTracer,
    emptied,
    is_inexact,
    is_reference,
    outcome,
    settle_outputs,
    settled,
    symbolic_zero,
    typeof,
    zero_tangent,
)  # fmt: skip


class Recording(Protocol):
    """What is asked of a recording here."""

    def inner(self, function: Any, args: Sequence[Any], moving: Collection[int], /) -> tuple[Graph, list[Any]]: ...

    def rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
        /,
    ) -> Deferred: ...

    def staged_rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
        /,
    ) -> Deferred: ...

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | None, /) -> list[Any]: ...


def custom_jvp_call(recording: Recording, fun: Any, jvp: Any, args: Sequence[Any], symbolic_zeros: bool) -> list[Any]:
    """Record a call of ``jax.custom_jvp``: JAX hands over the flat function and the flat rule."""
    types = [typeof(x) for x in args]
    call, lifted = recording.inner(fun.call_wrapped, args, ())
    inexact = [is_inexact(t) for t in types]
    tangent_types = [t for t, differentiable in zip(types, inexact, strict=True) if differentiable]

    def rule(*flat: Any, live: Sequence[bool] | None = None) -> list[Any]:
        live = inexact if live is None else live
        given = iter(flat[len(types) :])
        full = [
            next(given) if differentiable else np.zeros(t.shape, jax.dtypes.float0)
            for differentiable, t in zip(inexact, types, strict=True)
        ]
        tangents = [
            x if is_live or not symbolic_zeros else symbolic_zero(t)
            for x, t, is_live in zip(full, types, live, strict=True)
        ]
        outs = emptied(jvp).call_wrapped(*flat[: len(types)], *tangents)
        n = len(outs) // 2
        return [
            *outs[:n],
            *(_filled(t, o) for o, t in zip(outs[:n], outs[n:], strict=True) if is_inexact(typeof(o))),
        ]

    # where the body has a rule for reverse mode (NOTE [A function with both rules]), this one may never be wanted
    both = len(call.nodes) == 1 and call.nodes[0].op.primitive is custom_vjp
    made_by = recording.staged_rule if both else recording.rule
    key = rule_key(jvp, types)
    deferred = made_by(key, rule, args, tangent_types, lambda graph, outs, live: graph, symbolic_zeros)
    settle_outputs(fun, jvp)
    every = [*lifted, *args]
    op = custom_jvp_op(_lead(call, len(lifted)), len(lifted), deferred, _label(fun), [typeof(x) for x in every])
    return recording.emit(op, every, here())


def custom_vjp_call(
    recording: Recording,
    fun: Any,
    fwd: Any,
    bwd: Any,
    args: Sequence[Any],
    out_trees: Callable[[], Any],
    symbolic_zeros: bool,
) -> list[Any]:
    """Record a call of ``jax.custom_vjp``: JAX hands over the flat function and the flat rules."""
    # references are part of the rule: it reads and writes them when it runs
    held = {i: x for i, x in enumerate(args) if is_reference(typeof(x))}
    count = len(args)
    args = [x for i, x in enumerate(args) if i not in held]
    types = [typeof(x) for x in args]

    def every(values: Sequence[Any]) -> list[Any]:
        rest = iter(values)
        return [held[i] if i in held else next(rest) for i in range(count)]

    call, lifted = recording.inner(lambda *xs: fun.call_wrapped(*every(xs)), args, ())
    n = len(types)

    def forward(*xs: Any, live: Sequence[bool] | None = None) -> list[Any]:
        live_args = (True,) * n if live is None else live[:n]
        flags = iter(live_args)
        return emptied(fwd).call_wrapped(
            *[item for i, x in enumerate(every(xs)) for item in (x, i not in held and next(flags))]
        )

    def make(graph: Graph, outs: Sequence[Any], live: Sequence[bool] | None) -> VjpRule:
        builder = Builder(types)
        numbers = builder.splice(graph, builder.inputs)
        known = [None if isinstance(x, JaxTracer) and not is_reference(x.aval) else settled(x) for x in outs]
        cotangents = None if live is None else live[n:]
        return vjp_rule(
            call, builder, numbers, known, out_trees(), outcome(fwd), bwd, _label(fun), live=cotangents, held=held
        )

    key = (rule_key(fwd, types), rule_key(bwd, types), *[(i, Kept(x)) for i, x in held.items()])
    deferred = recording.rule(key, forward, args, (), make, symbolic_zeros)
    settle_outputs(fun, fwd)
    taken = [*lifted, *args]
    op = custom_vjp_op(_lead(call, len(lifted)), len(lifted), deferred, _label(fun), [typeof(x) for x in taken])
    return recording.emit(op, taken, here())


def _filled(tangent: Any, out: Any) -> Any:
    """A rule's tangent output as a value: symbolic zeros filled in."""
    return zero_tangent(typeof(out)) if type(tangent) is jax.custom_derivatives.SymbolicZero else tangent


def _label(fun: Any) -> str:
    return getattr(fun, "__name__", "function")


def _lead(graph: Graph, lifted: int) -> Graph:
    """The same graph with its last ``lifted`` inputs first."""
    builder = Builder(
        [*graph.in_types[len(graph.in_types) - lifted :], *graph.in_types[: len(graph.in_types) - lifted]]
    )
    return builder.finish(builder.splice(graph, [*builder.inputs[lifted:], *builder.inputs[:lifted]]))
