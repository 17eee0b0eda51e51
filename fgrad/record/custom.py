"""Recording calls of functions with custom rules; each becomes one operation that has its rule.

NOTE [Residuals that are known]
A residual that is not traced (a Python number, a NumPy array) is part of the rule: the backward rule gets it unchanged,
and it is not saved.  So ``isinstance(residual, int)`` and ``residual is True`` have the same results as under JAX.

NOTE [Outputs that only the rule maps]
Under ``jax.vmap`` an output may be the same for all examples (zeros, say) and have tangents that are not.  JAX then
takes the outputs from the rule, which has one for each example; so does a recording, where the rule can be recorded at
once.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import jax
import jax.ref
import numpy as np

from fgrad.graph.graph import Builder, Graph, evaluate
from fgrad.graph.importing import (
    custom_jvp_op,
    custom_vjp_op,
    is_made_by_jax,
    rule_key,
    ruled_by,
    vjp_rule,
)
from fgrad.graph.op import Kept, Op
from fgrad.graph.references import value_type
from fgrad.graph.regions import Deferred, VjpRule, vjp_call
from fgrad.graph.source import RawSource, here
from fgrad.jaxcore import (
    ShapedArray,
    Tracer as JaxTracer,
    closed_parts,
    has_unmapped_outputs,
    is_literal,
    reset_function,
    reset_rule,
    stored_outputs,
    typeof,
)
from fgrad.jaxtypes import is_inexact, is_reference, symbolic_zero, zero_tangent, zeros_of


class Recording(Protocol):
    """The methods of a recording that are used here."""

    def body(self, function: Any, args: Sequence[Any], /) -> tuple[Graph, list[Any], bool]: ...

    def records(self, args: Sequence[Any], /) -> bool: ...

    def without_undifferentiated(self, args: Sequence[Any], /) -> Sequence[Any]: ...

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

    def recorded_rule(self, rule: Deferred, /) -> Graph | None: ...

    def staged_graph(self, function: Any, in_types: Sequence[ShapedArray], /) -> Graph: ...

    def rule_run_now(
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


def custom_jvp_call(
    recording: Recording,
    fun: Any,
    jvp: Any,
    args: Sequence[Any],
    symbolic_zeros: bool,
    outside: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """Record a call of ``jax.custom_jvp``; JAX passes the flat function and the flat rule.

    ``outside`` is the call on values from outside.
    """
    every, (references, args) = args, _apart(args)
    types = [typeof(x) for x in args]
    call, lifted, accesses = recording.body(_with(references, fun), args)
    if accesses and not recording.records(known := recording.without_undifferentiated(every)):
        reset_rule(fun)
        return outside(known)
    inexact = [is_inexact(t) for t in types]
    tangent_types = [t for t, differentiable in zip(types, inexact, strict=True) if differentiable]

    def rule(*flat: Any, live: Sequence[bool] | None = None) -> list[Any]:
        live = inexact if live is None else live
        inexact_tangents = iter(flat[len(types) :])
        full = [
            next(inexact_tangents) if differentiable else np.zeros(t.shape, jax.dtypes.float0)
            for differentiable, t in zip(inexact, types, strict=True)
        ]
        tangents = [
            x if is_live or not symbolic_zeros else symbolic_zero(t)
            for x, t, is_live in zip(full, types, live, strict=True)
        ]
        outs = reset_rule(jvp).call_wrapped(
            *_with_references(references, flat[: len(types)]),
            *_with_references({i: _tangent_of_reference(x, symbolic_zeros) for i, x in references.items()}, tangents),
        )
        n = len(outs) // 2
        return [
            *outs[:n],
            *(_instantiated(t, o) for o, t in zip(outs[:n], outs[n:], strict=True) if is_inexact(typeof(o))),
        ]

    # if the body has a rule for reverse mode, this one may never run: NOTE [A function with both rules]
    both = vjp_call(call := ruled_by(jvp, call)) is not None
    make_rule = recording.rule_run_now if accesses else recording.staged_rule if both else recording.rule
    key = (rule_key(jvp, types), *_key_of(references))
    deferred = make_rule(key, rule, args, tangent_types, lambda graph, outs, live: graph, symbolic_zeros)
    if has_unmapped_outputs(fun) and (graph := recording.recorded_rule(deferred)) is not None:
        # NOTE [Outputs that only the rule maps]
        m, zeros = len(call.outputs), [*map(zeros_of, tangent_types)]
        call, lifted, _ = recording.body(lambda *xs: evaluate(graph, [*xs, *zeros])[:m], args)
    reset_function(fun, jvp)
    inputs = [*lifted, *args]
    op = custom_jvp_op(_lead(call, len(lifted)), len(lifted), deferred, _label(fun), [typeof(x) for x in inputs])
    return recording.emit(op, inputs, here())


def custom_vjp_call(
    recording: Recording,
    fun: Any,
    fwd: Any,
    bwd: Any,
    args: Sequence[Any],
    out_trees: Callable[[], Any],
    symbolic_zeros: bool,
    outside: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """Record a call of ``jax.custom_vjp``; JAX passes the flat function and the flat rules.

    ``outside`` is the call on values from outside.
    """
    every, (references, args) = args, _apart(args)
    types = [typeof(x) for x in args]
    call, lifted, accesses = recording.body(_with(references, fun), args)
    if accesses and not recording.records(known := recording.without_undifferentiated(every)):
        reset_rule(fun)
        return outside(known)
    n = len(types)

    def forward(*xs: Any, live: Sequence[bool] | None = None) -> list[Any]:
        live_args = (True,) * n if live is None else live[:n]
        flags = iter(live_args)
        return reset_rule(fwd).call_wrapped(
            *[
                item
                for i, x in enumerate(_with_references(references, xs))
                for item in (x, i not in references and next(flags))
            ]
        )

    def make(graph: Graph, outs: Sequence[Any], live: Sequence[bool] | None) -> VjpRule:
        builder = Builder(types)
        numbers = builder.splice(graph, builder.inputs)
        known = [None if isinstance(x, JaxTracer) and not is_reference(x.aval) else _as_passed_on(x) for x in outs]
        cotangents = live[n:] if live is not None and symbolic_zeros else None
        label, write = _label(fun), stored_outputs(fwd)
        return vjp_rule(
            *(call, builder, numbers, known, out_trees(), write, bwd, label, (), cotangents, references),
            stage=recording.staged_graph,
        )

    key = (rule_key(fwd, types), rule_key(bwd, types), *_key_of(references))
    make_rule = recording.rule_run_now if accesses or references else recording.rule
    deferred = make_rule(key, forward, args, (), make, symbolic_zeros or is_made_by_jax(fwd))
    reset_function(fun, fwd)
    inputs = [*lifted, *args]
    op = custom_vjp_op(_lead(call, len(lifted)), len(lifted), deferred, _label(fun), [typeof(x) for x in inputs])
    return recording.emit(op, inputs, here())


# references are part of the rule, which reads and writes them when it runs


def _apart(args: Sequence[Any]) -> tuple[dict[int, Any], list[Any]]:
    """The references among the arguments, by position, and the other arguments."""
    references = {i: x for i, x in enumerate(args) if is_reference(typeof(x))}
    return references, [x for i, x in enumerate(args) if i not in references]


def _with_references(references: Mapping[int, Any], values: Sequence[Any]) -> list[Any]:
    """The arguments again."""
    rest = iter(values)
    return [references[i] if i in references else next(rest) for i in range(len(references) + len(values))]


def _with(references: Mapping[int, Any], fun: Any) -> Callable[..., Any]:
    """The function of the other arguments."""
    return lambda *xs: fun.call_wrapped(*_with_references(references, xs))


def _key_of(references: Mapping[int, Any]) -> list[Hashable]:
    return [(i, Kept(x)) for i, x in references.items()]


def _tangent_of_reference(reference: Any, symbolic_zeros: bool) -> Any:
    """What a rule for forward mode gets for a reference: a new one that holds zeros."""
    type = value_type(typeof(reference))
    return symbolic_zero(type) if symbolic_zeros else jax.new_ref(zeros_of(type))


def _instantiated(tangent: Any, out: Any) -> Any:
    """A rule's tangent output with symbolic zeros instantiated."""
    return zero_tangent(typeof(out)) if type(tangent) is jax.custom_derivatives.SymbolicZero else tangent


def _label(fun: Any) -> str:
    return getattr(fun, "__name__", "function")


def _lead(graph: Graph, lifted: int) -> Graph:
    """The graph with its last ``lifted`` inputs first."""
    builder = Builder(
        [*graph.in_types[len(graph.in_types) - lifted :], *graph.in_types[: len(graph.in_types) - lifted]]
    )
    return builder.finish(builder.splice(graph, [*builder.inputs[lifted:], *builder.inputs[:lifted]]))


def _as_passed_on(value: Any) -> Any:
    """A known value as JAX passes it on: a number with its dtype, an array with its current elements."""
    if isinstance(value, jax.Array | jax.ref.Ref):
        return value
    if type(value) in (bool, int, float, complex):
        return _number_passed_on(value, repr(value), jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    return _passed_on(np.array(value) if isinstance(value, np.ndarray) else value)


@lru_cache(1 << 10, typed=True)
def _number_passed_on(value: Any, text: str, wide: bool) -> Any:
    """The same of a Python number, told apart from equal ones (zeros have signs) by its text."""
    return _passed_on(value)


def _passed_on(value: Any) -> Any:
    _, consts, _, _, (out,) = closed_parts(jax.make_jaxpr(lambda: value)())
    return out.val if is_literal(out) else consts[0]
