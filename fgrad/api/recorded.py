"""Recording a function's call, and the cache from recordings to transformed programs."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from attrs import frozen
from jax import tree_util

from fgrad.api.arguments import with_positions
from fgrad.graph.graph import Graph
from fgrad.jaxcore import Tracer, checks_each_primitive, restore_trace, set_trace
from fgrad.passes.dependence import passed_on
from fgrad.record.operands import explain
from fgrad.record.origin import Call
from fgrad.record.recorder import Recorder
from fgrad.run.cache import Cache
from fgrad.run.executable import PROGRAM_LIMIT, run

_programs: Cache[Hashable, Any] = Cache(PROGRAM_LIMIT)


@frozen(eq=False)
class Recorded:
    """One recorded call: the tape, the numbers of some outputs, the values of inputs and of what was closed over."""

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
        """``make(graph)``, kept for all recordings of equal structure and types.

        Where the result becomes part of an outer recording, or an error may name a line of it (``jax_debug_nans``), its
        source lines must be this function's own, so they are part of the key then.
        """
        recorder = self.recorder
        lined = checks_each_primitive() or any(isinstance(x, Tracer) for x in self.values)
        key = (kind, self.outputs, recorder.key(), self.lines if lined else None)
        program = _programs.get(key)
        if program is None:
            program = _programs.enter(key, make(self.graph()), len(recorder.ops))
        return program


def record(function: Callable[..., Any], inputs: Sequence[Any], call: Call | None = None) -> tuple[Recorder, Any]:
    """Call ``function`` on tracers of ``inputs``; the recorder and what the function returned.

    The recorder stays open until ``close``, for the caller to number the outputs.
    """
    recorder = Recorder(inputs, range(len(inputs)).__contains__, passed_on)
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
    numbers = tuple(map(recorder.number, outputs))
    recorder.open = False
    return Recorded(recorder, numbers, [*recorder.inputs, *recorder.consts])


def by_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``fun(*args, **kwargs)`` by way of its graph, where some of the arguments are tracers.

    Every operation then goes through ``Op.bind``, even in the functions that JAX would trace as one.
    """
    flat, tree = tree_util.tree_flatten((args, kwargs))
    at = [i for i, x in enumerate(flat) if isinstance(x, Tracer)]
    if not at:
        return fun(*args, **kwargs)

    def on_tracers(tracers: Sequence[Any]) -> Any:
        new_args, new_kwargs = tree_util.tree_unflatten(tree, with_positions(flat, at, tracers))
        return fun(*new_args, **new_kwargs)

    recorder, result = record(on_tracers, [flat[i] for i in at])
    try:
        outs, out_tree = tree_util.tree_flatten(result)
        traced = [i for i, x in enumerate(outs) if recorder.records((x,))]
        recorded = close(recorder, [outs[i] for i in traced])
    finally:
        recorder.open = False
    for i, x in zip(traced, run(recorded.graph(), recorded.values), strict=True):
        outs[i] = x
    return tree_util.tree_unflatten(out_tree, outs)
