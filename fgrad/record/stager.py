"""Recording on types alone, for ``jit``, templates, loop bodies and rules; see NOTE [Two kinds of recording]."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from fgrad.graph.graph import Const, Graph
from fgrad.graph.references import full_access
from fgrad.graph.regions import Deferred, DeferredByZeros
from fgrad.graph.source import here
from fgrad.jaxcore import (
    ShapedArray,
    Tracer as JaxTracer,
    eval_context,
    evaluating_trace,
    folds_constants,
    restoring_trace,
    set_trace,
    typeof,
    with_x64_for,
)
from fgrad.jaxtypes import in_mesh, is_reference, mesh_of
from fgrad.record.operands import explain
from fgrad.record.origin import Call
from fgrad.record.recording import Recording, new_tracer
from fgrad.record.tracer import Tracer


def staged_rule(
    key: Hashable,
    function: Callable[..., Any],
    args: Sequence[Any],
    others: Sequence[ShapedArray],
    make: Callable[[Graph, Sequence[Any], Any], Any],
    by_zeros: bool,
) -> Deferred:
    """``Recording.rule`` on types alone."""
    types = [*map(typeof, args), *others]

    def make_live(live: Any) -> Any:
        stager, outs, numbers = _staged(function if live is None else partial(function, live=live), types)
        return make(stager.closed_graph(numbers), outs, live)

    rule = Deferred(key, lambda: make_live(None))
    if not by_zeros:
        rule.function = function if others else None
        return rule
    return DeferredByZeros(rule, make_live)


def staged_graph(function: Any, in_types: Sequence[ShapedArray]) -> Graph:
    """``stage_closed`` for a rule, whose errors are explained where it is called."""
    stager, _, numbers = _staged_silently(function, in_types)
    return stager.closed_graph(numbers)


class Stager(Recording):
    """Records a function on types alone; everything that runs under it is recorded."""

    __slots__ = ()
    purpose = "staged (jit, make_graph, or a loop body)"

    def records(self, args: Sequence[Any]) -> bool:
        # under jax.ensure_compile_time_eval, what depends on no traced value is computed at once
        return not folds_constants() or any(isinstance(x, JaxTracer) for x in args)

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with eval_context():
            return primitive.bind(*args, **params)

    def outer(self) -> Any:
        return evaluating_trace()

    def stage_value(self, value: Any) -> Any:
        value = super().stage_value(value)
        if np.ndim(value) or isinstance(value, JaxTracer) or folds_constants():
            return value
        # JAX would branch on the concrete value of an index
        return new_tracer(self, typeof(value), self.number(value))

    def threads(self, value: Any) -> bool:
        return is_reference(typeof(value))

    def read_outside(self, reference: Any) -> Any:
        return self.emit(full_access("get", [typeof(reference)]), [reference], here(4))[0]

    def write_outside(self, reference: Any, value: Any) -> None:
        self.emit(full_access("swap", [typeof(reference), typeof(value)]), [reference, value], here(4))

    def number(self, value: Any) -> int:
        # scalars and NumPy scalars in staged code are part of the program
        if not isinstance(value, Tracer) and isinstance(value, int | float | complex | np.generic):
            return self.literal(_scalar(value))
        return super().number(value)

    def lift(self, value: Any) -> int:
        if (
            isinstance(value, jax.Array)
            and not isinstance(value, JaxTracer)
            and value.ndim == 0
            and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended)
        ):
            return self.literal(_scalar(value))
        return super().lift(value)

    def inner(self, function: Any, args: Sequence[Any]) -> tuple[Graph, list[Any]]:
        return stage(function, [typeof(x) for x in args])

    staged_rule: Callable[..., Deferred] = staticmethod(staged_rule)
    staged_graph: Callable[..., Graph] = staticmethod(staged_graph)

    def rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        return staged_rule(key, function, args, others, make, by_zeros)


_scalars: dict[Any, Const] = {}


def _scalar(value: Any) -> Const:
    """The only ``Const`` for a scalar, so that a tape has it once."""
    const = Const.of(value)
    if len(_scalars) > 1 << 14:
        _scalars.clear()
    return _scalars.setdefault(const, const)


def stage(function: Any, in_types: Sequence[ShapedArray], call: Call | None = None) -> tuple[Graph, list[Any]]:
    """The graph of a flat function on values of these types, outside values as trailing inputs; and those values."""
    stager, _, numbers = _staged(function, in_types, call)
    return stager.graph(numbers)


def stage_closed(function: Any, in_types: Sequence[ShapedArray], call: Call | None = None) -> Graph:
    """``stage`` with outside values embedded as constants."""
    stager, _, numbers = _staged(function, in_types, call)
    return stager.closed_graph(numbers)


def _outputs(stager: Stager, function: Any, tracers: Sequence[Tracer]) -> tuple[Sequence[Any], list[int]]:
    with set_trace(stager):
        outs = function(*tracers)
        return outs, stager.outputs(outs)


def _staged(
    function: Any, in_types: Sequence[ShapedArray], call: Call | None = None
) -> tuple[Stager, Sequence[Any], list[int]]:
    """The finished tape of a flat function, its outputs, and their numbers on the tape."""
    try:
        return _staged_silently(function, in_types, call)
    except Exception as error:
        explain(error)
        raise


def _staged_silently(
    function: Any, in_types: Sequence[ShapedArray], call: Call | None = None
) -> tuple[Stager, Sequence[Any], list[int]]:
    stager = Stager()
    stager.call = call
    tracers = [stager.new_input(t) for t in in_types]
    try:
        with in_mesh(mesh_of(in_types)):
            return stager, *with_x64_for(in_types, restoring_trace, _outputs, stager, function, tracers)
    finally:
        stager.open = False
        if call is not None:
            call.end()
