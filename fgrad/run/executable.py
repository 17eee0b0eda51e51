"""Running graphs: one executable for each structure, which moves from one back end to the next.

NOTE [When a graph is compiled]
A structure met once is interpreted: compiling would cost more than it saves, and random programs, or a Python loop
that runs a different number of times, meet each structure once.  Met again, it is compiled whole and kept in a
bounded cache.  XLA's time grows with the square of a graph's length, and so does the number of times that a long graph
must be met first; until then it is run in stretches (``stretches.py``).  When is the policy's to say: NOTE [Back ends
in order].  Arguments that are tracers make no program at all: a recording takes the graph's nodes over, and any other
JAX trace gets them bound one by one.

NOTE [Interrupted in XLA]
A signal that comes while JAX traces or compiles a function can leave an entry in JAX's caches that looks like a call
which is still running: that function raises RecursionError from then on (jaxlib 0.10).  So what ``jax.jit`` has given
is kept only once it has run; after an interrupt the next run begins with a new one.
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
    checks_each_primitive,
    current_trace,
    is_evaluating,
    primitive,
    restoring_trace,
    with_x64,
)
from fgrad.run.background import Compilation, Compile, begun, when_called
from fgrad.run.cache import Cache, clear_all
from fgrad.run.grouped_convolutions import lowered
from fgrad.run.interpreter import as_arrays, in_memory, interpret
from fgrad.run.numpy_program import NumpyProgram, numpy_program
from fgrad.run.policy import Follower, Pace, PaceOf, Policy, active, calls, follow
from fgrad.run.prices import Kind, Size, prices
from fgrad.run.stretches import Stretches, cut

#: executables that are kept
PROGRAM_LIMIT = 4096

ops.enter_lowering(primitive("conv_general_dilated"), lowered)

#: where NumPy is silent about infinities and NaNs; each run enters a copy, since a context cannot be entered twice
SILENT = Context()
SILENT.run(np.seterr, all="ignore")


class TakesGraphs(Trace):
    """A trace that can take over a whole graph at once."""

    __slots__ = ("order",)

    #: later recordings are inner ones: with values of several, the latest takes the graph
    order: int

    def splice(self, graph: Graph, args: Sequence[Any], source: Any = None) -> list[Any]:
        raise NotImplementedError


class Executable(Follower):
    """A graph, the back end that runs it at present, and how many runs are left until it is compiled.

    Attributes:
      graph: what is run.
      numpy: the NumPy program, if it runs the graph for good.
      compiled: XLA's program, once it has taken over.
    """

    __slots__ = (
        "graph",
        "numpy",
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
        #: whether a back end has been chosen, and the calls of those that run
        self.begun: bool
        self.numpy: Any
        self.compiled: Any
        #: what XLA has compiled, kept under policies that do not run it
        self._xla: Any = None
        #: the NumPy program, while the graph is new
        self._new: Any = None
        self._left: float = 0
        #: the seconds that NumPy may still spend on it, the fewest that a run of its has taken, and XLA's slower runs
        self._unspent: float = 0
        self._fastest: float = inf
        self._trials: int = 0
        self._compile: Compile = when_called
        self._compilation: Compilation | None = None
        self._stretches: Stretches | None = None
        self.stop()
        follow(self)

    def stop(self) -> None:
        """Leave all back ends; the next run begins under the policy that is in force then."""
        self.begun = False
        self.numpy = self.compiled = None
        self._unspent = 0

    def begin(self) -> None:
        """Start with the first back end that the policy in force allows."""
        policy = active()
        graph, pace = self.graph, self._pace_of(policy)
        self.begun = True
        most = pace.numpy_excess
        found = numpy_program(graph, pace.kernels, most) if most > -inf else None
        kept = found is not None and found.excess <= pace.numpy_kept_excess and found.largest <= pace.numpy_kept_size
        self._new = None if found is None else found.run
        self.numpy = self._new if kept else None
        self._waits = pace.numpy_waits
        rented = found is not None and not kept and pace.rent > 0
        self._unspent = pace.rent * prices.rent(Size.of(graph)) if rented else 0
        self._fastest, self._trials = inf, 0
        self._left = 0 if rented else runs_before_compiling(graph, pace, policy, found)
        # there must be another way to run it meanwhile
        self._compile = pace.compile if rented or self._left > 0 else when_called
        self._stretches = None
        # where NumPy also runs it on JAX's arrays, what XLA has compiled under another policy is not asked
        early = rented or self._left > 0
        self.compiled = None if early or (kept and pace.numpy_waits) else self._xla
        if active() is not policy:  # another thread has changed it meanwhile
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
        """Run on concrete arrays a graph that XLA has not taken over, and count the run."""
        if not self.begun:
            self.begin()
            return self(args)
        new = self._new  # read once: another thread may give it up meanwhile
        if new is not None and not checks_each_primitive() and all(map(in_memory, args)):
            if (self.numpy is not None and self._waits) or self._early():
                return self.given(self._by_numpy(new, args))
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
        """Run by XLA for the first few times; NumPy keeps the graph if it has been faster: see NOTE [Rent or buy]."""
        if self._xla is None:
            outs = restoring_trace(self._compiled, args)
            self.compiled = None  # the first call takes JAX longer
            return self.given(self._by_numpy(run, args)) if outs is None else outs
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
        """Count a run; whether it comes before XLA's program takes over."""
        self._left -= 1
        return self._left >= 0 or self._unspent > 0 or not self._ready(self._compile)

    def ready(self) -> bool:
        """Whether it can run now, for callers that have another way; if not, its compilation starts."""
        if not self.begun:
            self.begin()
        pace = self._pace_of(active())
        if self.numpy is not None or pace.runs > 0:
            return True
        self._left = 0  # a long graph that is not compiled runs in stretches, which is slower than that other way
        return self._ready(pace.compile)

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

    def given(self, outs: Sequence[Any]) -> Sequence[Any]:
        """What a NumPy program has computed, as arrays of JAX."""
        return as_arrays(outs, self.graph.out_types)

    def _compiled(self, args: Sequence[Any]) -> Sequence[Any] | None:
        """Compile and run; None where XLA cannot compile, since a primitive is implemented in Python only."""
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
    """How often a graph is run in another way before it is compiled."""
    if calls_python(graph):
        return inf
    if numpy is not None:
        runs = max(pace.runs, pace.numpy_runs)
    else:
        heavy = pace.heavy_runs != pace.runs and Size.of(graph).kind is not Kind.OTHER
        runs = pace.heavy_runs if heavy else pace.runs
    return runs + long_runs(graph, policy)


def long_runs(graph: Graph, policy: Policy) -> float:
    """How often a long graph is run in stretches before it is compiled whole; 0 of one that is not long."""
    # to XLA a graph is as long as its nodes are many, and longer where it computes many outputs each from the start
    lengths = len(graph.nodes) * (1 + len(graph.outputs) // policy.outputs) // policy.stretch
    return policy.long_runs * lengths**2 if lengths else 0


def calls_python(graph: Graph) -> bool:
    """Whether a graph calls functions of the user's on its values."""
    return graph.effects and any(isinstance(node.op.primitive, PythonCall) for node in graph.nodes)


def _is_traced(const: Const) -> bool:
    return isinstance(const.value, Tracer)


def bind(graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> Sequence[Any]:
    """Bind a graph under its tracers' trace; ``source`` is the line of those nodes that have none of their own."""
    latest: TakesGraphs | None = None
    for x in args:
        if isinstance(x, Tracer):
            trace = x._trace
            if not isinstance(trace, TakesGraphs):
                # a constant among the results may be a Python number
                outs = zip(evaluate(graph, args), graph.out_types, strict=True)
                return [x if isinstance(x, jax.Array) else as_arrays([x], [t])[0] for x, t in outs]
            if latest is None or trace.order > latest.order:
                latest = trace
    assert latest is not None
    return latest.splice(graph, args, source)


_executables: Cache[Graph, Executable] = Cache(PROGRAM_LIMIT)


def executable(graph: Graph) -> Executable:
    """The executable of a graph, shared by all graphs of equal structure, whatever their lines.

    Where an error may name a line (``jax_debug_nans``), it is the graph's own.
    """
    if checks_each_primitive():
        return Executable(graph, calls)
    found = _executables.get(graph)
    return _executables.enter(graph, Executable(graph, calls), len(graph.nodes)) if found is None else found


@frozen(eq=False)
class Program:
    """A graph with the executable that it shares with all equal ones.

    Tracers get this very graph, not an equal one that was met before: its source lines are its own.
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
    """How much is kept: programs (and how many of them are compiled) and interned operations."""

    programs: int
    compiled: int
    operations: int


def cache_info() -> CacheInfo:
    """What fgrad's caches hold at present.

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
