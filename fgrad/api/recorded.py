"""Recording the call of a user's function on tracers, and the cache from recordings to transformed programs."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from attrs import frozen
from jax import tree_util

from fgrad.api.arguments import Leaves, flattened, leaves, with_positions
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import intern
from fgrad.jaxcore import ShapedArray, Tracer, checks_each_primitive, primitive, restore_trace, set_trace, typeof
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import passed_on
from fgrad.passes.jvp import values_by_rules
from fgrad.record.kept import note_end
from fgrad.record.operands import explain
from fgrad.record.origin import Call
from fgrad.record.recorder import Derivatives, Recorder
from fgrad.record.references import Cell, is_own
from fgrad.run.cache import Cache
from fgrad.run.executable import PROGRAM_LIMIT, run

_programs: Cache[Hashable, Any] = Cache(PROGRAM_LIMIT)
_DERIVATIVES = Derivatives(passed_on, values_by_rules)


@frozen(eq=False)
class Recorded:
    """A finished recording: the tape, the numbers of its outputs, and the values of inputs and closed-over values."""

    recorder: Recorder
    outputs: tuple[int, ...]
    values: list[Any]

    @property
    def lines(self) -> Hashable:
        """The source lines of the tape: part of the key of what may be spliced into another recording."""
        return self.recorder.lines()

    def graph(self) -> Graph:
        """The graph (inputs, closed-over values) -> outputs."""
        return self.recorder.graph(self.outputs)[0]

    def cached(self, kind: Hashable, make: Callable[[Graph], Any]) -> Any:
        """``make(graph)``, cached for all recordings of equal structure and types.

        If the result becomes part of an outer recording, or an error may name one of its lines (``jax_debug_nans``),
        the key includes the source lines.
        """
        recorder = self.recorder
        with_lines = checks_each_primitive() or any(isinstance(x, Tracer) for x in self.values)
        key = (kind, self.outputs, recorder.key(), self.lines if with_lines else None)
        program = _programs.get(key)
        if program is None:
            program = _programs.enter(key, make(self.graph()), len(recorder.ops))
        return program


def record(function: Callable[..., Any], inputs: Sequence[Any], call: Call | None = None) -> tuple[Recorder, Any]:
    """Call ``function`` on tracers of ``inputs``; the recorder and the function's result.

    The recorder stays open until ``close``, for the caller to number the outputs.
    """
    recorder = Recorder(inputs, range(len(inputs)).__contains__, _DERIVATIVES)
    recorder.call = call
    tracers = recorder.start()
    try:
        with set_trace(recorder):
            result = function(tracers)
    except BaseException as error:
        if isinstance(error, Exception):
            explain(error)
        recorder.open = False
        restore_trace(recorder.parent)
        raise
    return recorder, result


def close(recorder: Recorder, outputs: Sequence[Any]) -> Recorded:
    """End a recording, with these values as its outputs."""
    # nearly always no more than this: a call less in every gradient
    numbers = tuple(recorder.outputs(outputs) if recorder.used_later else map(recorder.number, outputs))
    recorder.open = False
    if recorder.call is not None:
        recorder.call.end()
    note_end(recorder)
    return Recorded(recorder, numbers, [*recorder.inputs, *recorder.consts])


def by_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``fun(*args, **kwargs)`` by way of its graph, if some of the arguments are tracers.

    Every operation then goes through ``Op.bind``, even in functions that JAX would trace as one primitive.
    """
    flat, tree = tree_util.tree_flatten((args, kwargs))
    traced_in = [i for i, x in enumerate(flat) if isinstance(x, Tracer)]
    if not traced_in:
        return fun(*args, **kwargs)

    def on_tracers(tracers: Sequence[Any]) -> Any:
        new_args, new_kwargs = tree_util.tree_unflatten(tree, with_positions(flat, traced_in, tracers))
        return fun(*new_args, **new_kwargs)

    recorder, result = record(on_tracers, [flat[i] for i in traced_in])
    try:
        outs, out_tree = tree_util.tree_flatten(result)
        traced_out = [i for i, x in enumerate(outs) if recorder.records((x,))]
        recorded = close(recorder, [outs[i] for i in traced_out])
    finally:
        recorder.open = False
    for i, x in zip(traced_out, run(recorded.graph(), recorded.values), strict=True):
        outs[i] = x
    return tree_util.tree_unflatten(out_tree, outs)


# --------------------------------------------------------------------------------------------------------------------
# a call's outputs as flat values, its auxiliary data, and the way back


@frozen(eq=False)
class Called:
    """A recorded call: the outputs of ``recorded`` are those of the function and then the traced leaves of ``aux``."""

    recorded: Recorded
    out: Leaves
    aux: Any
    #: which leaves of aux are outputs of the recording
    traced: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many outputs the function has."""
        return len(self.out.values)

    @property
    def kind(self) -> tuple[int, int]:
        """What a program made from this recording depends on, apart from the tape."""
        return (self.count, len(self.recorded.recorder.inputs))

    def outputs(self, values: Sequence[Any]) -> tuple[Any, Any]:
        """The function's output and its auxiliary data, from the values of the recording's outputs."""
        flat, tree = tree_util.tree_flatten(self.aux)
        if self.traced:
            set_aux(flat, self.traced, values[self.count : self.count + len(self.traced)])
        return self.out.unflatten(values[: self.count]), tree_util.tree_unflatten(tree, flat)


def call(fun: Callable[..., Any], inputs: Sequence[Any], has_aux: bool, of: Call) -> Called:
    """Record ``fun(tracers)`` for tracers of the flat ``inputs``; ``of`` describes the call.

    Raises:
      TypeError: the function did not return a pair with ``has_aux``, or returned something other than arrays.
    """
    what = of.what
    recorder, result = record(fun, inputs, of)
    try:
        result, aux = split_aux(result, has_aux, what)
        out = leaves(result, "output", f"{what}: the function's output")
        aux_flat, _ = flattened(aux, "aux", what)
        traced, aux_values = recorded_aux(recorder, aux_flat) if aux_flat else ((), ())
        return Called(close(recorder, [*out.values, *aux_values]), out, aux, tuple(traced))
    finally:
        recorder.open = False


def _kind(result: Any) -> str:
    if isinstance(result, tuple | list):
        return f"{type(result).__name__} of length {len(result)}"
    return f"an array {typeof(result).str_short()}" if isinstance(result, jax.Array) else type(result).__name__


def split_aux(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    """``(output, aux)`` from a function's result.

    Raises:
      TypeError: with ``has_aux``, it is not a pair.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(
            f"{what} with has_aux=True: the function must return a pair (value, aux), got {_kind(result)}.\n"
            "Way out: return value, aux; or leave has_aux out."
        )
    value, aux = result
    return value, aux


def recorded_aux(recorder: Recorder, flat: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """Which of the ``flat`` leaves of ``aux`` the recorder has computed, and their values: what a reference holds."""
    traced = [i for i, x in enumerate(flat) if recorder.records((x,)) or is_own(recorder, x)]
    return traced, [x.value if isinstance(x, Cell) else x for x in map(flat.__getitem__, traced)]


def set_aux(flat: list[Any], traced: Sequence[int], values: Sequence[Any]) -> None:
    """Put the ``values`` of those leaves into ``flat``; a reference that the function has made becomes one outside."""
    made = {}
    for i, x in zip(traced, values, strict=True):
        cell = flat[i]
        if isinstance(cell, Cell):
            if id(cell) not in made:
                made[id(cell)] = jax.new_ref(x)
            x = made[id(cell)]
        flat[i] = x


def inexact_inputs(types: Sequence[ShapedArray], count: int, nonzero: Sequence[bool] | None = None) -> list[int]:
    """Which of the first ``count`` inputs have derivatives; the others are closed-over values.

    Those not flagged in ``nonzero`` have none.
    """
    return [i for i in range(count) if is_inexact(types[i]) and (nonzero is None or nonzero[i])]


def weak_as(builder: Builder, number: int, type: ShapedArray) -> int:
    """A derivative converted to be weakly typed if its primal is (a Python number), as in JAX."""
    if not type.weak_type or builder.types[number].weak_type:
        return number
    op = intern(primitive("convert_element_type"), weak_params(type), (builder.types[number],))
    return builder.emit(op, (number,))


def weak_params(type: ShapedArray) -> dict[str, Any]:
    return {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}


def with_weakness(value: Any, type: ShapedArray) -> Any:
    """``value`` with the dtype and weakness of ``type``."""
    got = typeof(value)
    if got.dtype == type.dtype and got.weak_type == type.weak_type:
        return value
    return primitive("convert_element_type").bind(value, **weak_params(type))
