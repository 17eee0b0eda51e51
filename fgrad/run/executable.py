"""Running graphs: one executable per structure, which moves from one back end to the next.

NOTE [When a graph is compiled]
A structure seen once is interpreted: compiling would cost more than it saves, and random programs, or a Python loop
with a varying number of iterations, see each structure once.  Seen again, it is compiled whole and kept in a bounded
cache.  XLA's time grows with the square of a graph's length, and so does the number of runs before a long graph is
compiled; until then it runs in stretches (``stretches.py``).  The policy holds all thresholds: NOTE [Back ends in
order].  For tracers as arguments no program is made: a recording takes over the graph's nodes, and under any other JAX
trace they are bound one by one.

NOTE [Interrupted in XLA]
A signal that arrives while JAX traces or compiles a function can leave an entry in JAX's caches that looks like a call
in progress: the function raises RecursionError from then on (jaxlib 0.10).  So the result of ``jax.jit`` is kept only
once it has run; after an interrupt the next run starts with a new one.
"""

from collections.abc import Sequence
from contextvars import Context
from math import inf
from time import perf_counter
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad.graph import op as ops
from fgrad.graph.graph import Const, Graph, evaluate, narrowed
from fgrad.graph.regions import PythonCall
from fgrad.graph.source import RawSource
from fgrad.jaxcore import (
    Trace,
    Tracer,
    axis_sizes,
    checks_each_primitive,
    current_trace,
    is_evaluating,
    primitive,
    restoring_trace,
    with_x64,
)
from fgrad.run.background import Compilation, Compile, begun, when_called
from fgrad.run.cache import Cache, clear_all
from fgrad.run.cpu_convolutions import lowered
from fgrad.run.interpreter import as_arrays, in_memory, interpret
from fgrad.run.numpy_program import NumpyProgram, numpy_program
from fgrad.run.policy import Follower, Pace, PaceOf, Policy, active, calls, follow
from fgrad.run.prices import Kind, Size, prices
from fgrad.run.stretches import Stretches, cut

#: the executables, by structure
PROGRAM_LIMIT = 4096

ops.enter_lowering(primitive("conv_general_dilated"), lowered)

#: a context with NumPy's warnings off, copied per run because contexts are not re-entrant
SILENT = Context()
SILENT.run(np.seterr, all="ignore")


class TakesGraphs(Trace):
    """A trace that can take over a whole graph at once."""

    __slots__ = ("order",)

    #: later recordings are nested inside earlier ones; the latest takes a graph with values of several
    order: int

    def splice(self, graph: Graph, args: Sequence[Any], source: Any = None) -> list[Any]:
        raise NotImplementedError

    def outer(self) -> Any:
        """The trace around it."""
        raise NotImplementedError


class Executable(Follower):
    """A graph, its current back end, and the number of runs left until it is compiled.

    Attributes:
      graph: the graph that runs.
      numpy: the NumPy program, if it runs the graph permanently.
      kernel: the function that computes the graph's only result from its arguments, if that is all the NumPy program.
      compiled: XLA's program, once it has taken over.
    """

    __slots__ = (
        "graph",
        "numpy",
        "kernel",
        "compiled",
        "_pace_of",
        "_new",
        "_waits",
        "_left",
        "_unspent",
        "_fastest",
        "_trials",
        "_compile",
        "_compilation",
        "_xla",
        "_stretches",
        "begun",
    )

    def __init__(self, graph: Graph, pace_of: PaceOf):
        self.graph: Graph = graph
        self._pace_of = pace_of
        #: whether a back end has been chosen, and the callables of those in use
        self.begun: bool
        self.numpy: Any
        self.kernel: Any
        self.compiled: Any
        #: XLA's program, kept even under policies that do not run it
        self._xla: Any = None
        #: the NumPy program, while the graph is new
        self._new: Any = None
        self._left: float = 0
        #: the seconds left to NumPy, NumPy's fastest run, and the number of XLA's slower runs
        self._unspent: float = 0
        self._fastest: float = inf
        self._trials: int = 0
        self._compile: Compile = when_called
        self._compilation: Compilation | None = None
        self._stretches: Stretches | None = None
        self.stop()
        follow(self)

    def stop(self) -> None:
        """Leave all back ends; the next run starts under the policy then in force."""
        self.begun = False
        self.numpy = self.kernel = self.compiled = None
        self._unspent = 0

    def begin(self) -> None:
        """Start with the first back end that the policy in force allows."""
        policy = active()
        graph, pace = self.graph, self._pace_of(policy)
        self.begun = True
        most = pace.numpy_excess
        program = numpy_program(graph, pace.kernels, most) if most > -inf else None
        kept = (
            program is not None and program.excess <= pace.numpy_kept_excess and program.largest <= pace.numpy_kept_size
        )
        self._new = None if program is None else program.run
        self.numpy = self._new if kept else None
        self.kernel = program.kernel if program is not None and kept else None
        self._waits = pace.numpy_waits
        rented = program is not None and not kept and pace.rent > 0
        self._unspent = pace.rent * prices.rent(Size.of(graph)) if rented else 0
        self._fastest, self._trials = inf, 0
        self._left = 0 if rented else runs_before_compiling(graph, pace, policy, program)
        # only if another back end can run it meanwhile
        self._compile = pace.compile if rented or self._left > 0 else when_called
        self._stretches = None
        # if NumPy runs it on JAX's arrays, too, a program compiled under another policy is not used
        early = rented or self._left > 0
        self.compiled = None if early or (kept and pace.numpy_waits) else self._xla
        if active() is not policy:  # another thread has changed the policy meanwhile
            self.stop()

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on flat arguments; the flat results."""
        for x in args:
            if isinstance(x, Tracer):
                return self.bound(args)
        return self.on_arrays(args)

    def on_arrays(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on flat arguments none of which is a tracer."""
        if self.graph.wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            return with_x64(self, narrowed(self.graph, args))
        compiled = self.compiled
        return self.run_new(args) if compiled is None else compiled(*args)

    def bound(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run under the trace of the tracers among the arguments."""
        return bind(self.graph, args)

    def run_new(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on concrete arrays, before XLA has taken over, and count the run."""
        if not self.begun:
            self.begin()
            return self(args)
        new = self._new  # read once: another thread may drop it meanwhile
        if new is not None and not checks_each_primitive() and all(map(in_memory, args)):
            if (self.numpy is not None and self._waits) or self._early():
                return self.results(self._by_numpy(new, args))
            if self._fastest < inf:
                return self._tried(new, args)
            self._new = None
        return restoring_trace(self._run_by_jax, args)

    def _by_numpy(self, run: Any, args: Sequence[Any]) -> Sequence[Any]:
        began = perf_counter()
        arrays = [np.asarray(x, t.dtype) for x, t in zip(args, self.graph.in_types, strict=True)]
        begun = perf_counter()
        outs = SILENT.copy().run(run, arrays)
        if self._unspent > 0:
            ended = perf_counter()
            self._unspent -= ended - began
            self._fastest = min(self._fastest, ended - begun)
        return outs

    def _tried(self, run: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Run by XLA, on trial; the graph stays with NumPy if that was faster: see NOTE [Rent or buy]."""
        if self._xla is None:
            outs = restoring_trace(self._compiled, args)
            self.compiled = None  # JAX's first call takes longer
            return self.results(self._by_numpy(run, args)) if outs is None else outs
        jax.block_until_ready(args)
        began = perf_counter()
        outs = jax.block_until_ready(restoring_trace(self._xla, *args))
        took = perf_counter() - began
        self._trials += 1
        if took < self._fastest:
            self._new, self.compiled = None, self._xla
        elif self._trials == active().trials:
            self.numpy, self._waits = run, True
        else:
            return outs
        prices.learn_saving(Size.of(self.graph), self._fastest, took)
        return outs

    def _early(self) -> bool:
        """Count a run; returns whether it is too early for XLA."""
        self._left -= 1
        return self._left >= 0 or self._unspent > 0 or not self._ready(self._compile)

    def ready(self) -> bool:
        """Whether it can run now, for callers with an alternative; if not, its compilation starts."""
        if not self.begun:
            self.begin()
        pace = self._pace_of(active())
        if self.numpy is not None or self._is_rented() or pace.runs > 0:
            return True
        self._left = 0  # a long graph that is not compiled would run in stretches, which is slower than the alternative
        return self._ready(pace.compile)

    def _is_rented(self) -> bool:
        """Whether NumPy runs it as long as it is new, or has: see NOTE [Rent or buy]."""
        return self._unspent > 0 or self._fastest < inf

    def _ready(self, compile: Compile) -> bool:
        if self._xla is not None:
            return True
        graph = self.graph
        program = lambda: jax.jit(lambda *args: evaluate(graph, args))  # noqa: E731
        self._compilation = begun(self._compilation, compile, program, graph.in_types)
        return self._compilation.ready

    def _run_by_jax(self, args: Sequence[Any]) -> Sequence[Any]:
        if not self._early():
            outs = self._compiled(args)
            if outs is not None:
                return outs
        graph, policy = self.graph, active()
        if calls_python(graph) or not is_evaluating(current_trace()):
            outs = evaluate(graph, args)
        elif len(graph.nodes) > policy.stretch and not any(map(_is_traced, graph.consts)):
            if self._stretches is None:
                self._stretches = cut(graph, policy.stretch)
            outs = self._stretches(args, self._pace_of(policy))
        else:
            outs = interpret(graph, args, self._pace_of(policy).kernels)
        return as_arrays(outs, graph.out_types)

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        """The results of a NumPy program as JAX arrays."""
        return as_arrays(outs, self.graph.out_types)

    def _compiled(self, args: Sequence[Any]) -> Sequence[Any] | None:
        """Compile and run; None if XLA cannot compile it because a primitive is implemented in Python only."""
        if self._xla is None:
            assert self._compilation is not None
            xla = self._compilation.program
            if self._compilation.seconds is not None:
                prices.learn_seconds(Size.of(self.graph), self._compilation.seconds)
            try:
                outs = xla(*args)
            except NotImplementedError:
                self._left = inf
                return None
            except BaseException:
                self._compilation = None  # see NOTE [Interrupted in XLA]
                raise
            self._xla = self.compiled = xla
            self._stretches = None
            return outs
        self.compiled = self._xla
        return self.compiled(*args)


def runs_before_compiling(graph: Graph, pace: Pace, policy: Policy, numpy: NumpyProgram | None) -> float:
    """How often a graph runs on other back ends before it is compiled."""
    if calls_python(graph):
        return inf
    if numpy is not None:
        runs = max(pace.runs, pace.numpy_runs)
    else:
        heavy = pace.heavy_runs != pace.runs and Size.of(graph).kind is not Kind.OTHER
        runs = pace.heavy_runs if heavy else pace.runs
    return runs + long_runs(graph, pace, policy)


def long_runs(graph: Graph, pace: Pace, policy: Policy) -> float:
    """How often a long graph runs in stretches before it is compiled whole; 0 if it is not long."""
    # XLA's time grows with the number of nodes, and with the outputs that fusion computes each from the start
    lengths = len(graph.nodes) * (1 + len(graph.outputs) // policy.outputs) // policy.stretch
    return pace.long_runs * lengths**2 if lengths else 0


def calls_python(graph: Graph) -> bool:
    """Whether a graph calls the user's Python functions on its values."""
    return graph.effects and any(isinstance(node.op.primitive, PythonCall) for node in graph.nodes)


def _is_traced(const: Const) -> bool:
    return isinstance(const.value, Tracer)


def bind(graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> Sequence[Any]:
    """Bind a graph under its tracers' trace; ``source`` is the line of nodes that have none of their own."""
    latest: TakesGraphs | None = None
    for x in args:
        if isinstance(x, Tracer):
            trace = x._trace
            if not isinstance(trace, TakesGraphs):
                current = current_trace()
                own = [isinstance(x, Tracer) and x._trace is current for x in args]
                if isinstance(current, TakesGraphs) and any(own):
                    return current.splice(graph, args, source)  # the others are values from outside
                return _evaluated(graph, args)
            if latest is None or trace.order > latest.order:
                latest = trace
    assert latest is not None
    if axis_sizes() and _is_within_jax(current_trace(), latest):
        return _evaluated(graph, args)  # inside a jax.vmap whose axis the graph may name
    return latest.splice(graph, args, source)


def _is_within_jax(trace: Any, recording: TakesGraphs) -> bool:
    """Whether one of JAX's own traces stands between a trace and a recording around it."""
    while isinstance(trace, TakesGraphs) and trace is not recording:
        trace = trace.outer()
    return trace is not recording


def _evaluated(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The results under JAX's current trace; a constant among them may be a Python number."""
    outs = zip(evaluate(graph, args), graph.out_types, strict=True)
    return [x if isinstance(x, jax.Array) else as_arrays([x], [t])[0] for x, t in outs]


_executables: Cache[Graph, Executable] = Cache(PROGRAM_LIMIT)


def executable(graph: Graph) -> Executable:
    """The executable of a graph, shared by all graphs of equal structure, whatever their lines.

    If errors may name a line (``jax_debug_nans``), the graph has its own executable.
    """
    if checks_each_primitive():
        return Executable(graph, calls)
    known = _executables.get(graph)
    return _executables.enter(graph, Executable(graph, calls), len(graph.nodes)) if known is None else known


@frozen(eq=False)
class Program:
    """A graph with the executable shared by all equal graphs.

    Tracers get this very graph, not an equal one seen earlier, because it has its own source lines.
    """

    graph: Graph
    executable: Executable

    @staticmethod
    def of(graph: Graph) -> "Program":
        return Program(graph, executable(graph))

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on flat values: arrays, or tracers of any kind."""
        for x in args:
            if isinstance(x, Tracer):
                return bind(self.graph, args)
        return self.executable.on_arrays(args)


def run(graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
    """Run a graph on flat values, as its program would."""
    if any(isinstance(x, Tracer) for x in args):
        return bind(graph, args)
    return executable(graph).on_arrays(args)


@frozen
class CacheInfo:
    """The sizes of the caches: programs (and how many of them are compiled) and interned operations."""

    programs: int
    compiled: int
    operations: int


def cache_info() -> CacheInfo:
    """The current sizes of fgrad's caches.

    >>> import fgrad
    >>> fgrad.clear_cache()
    >>> fgrad.cache_info()
    CacheInfo(programs=0, compiled=0, operations=0)
    """
    programs = list(_executables.values())
    return CacheInfo(len(programs), sum(p.compiled is not None for p in programs), ops.table_size())


def clear_cache() -> None:
    """Forget every program, template and interned operation; the next call of each function records and compiles anew.

    >>> import fgrad
    >>> fgrad.clear_cache()
    """
    clear_all()
    ops.clear_table()
