"""Running graphs: the first time node by node, from the second on as one compiled program.

NOTE [When a graph is compiled]
A structure met once is interpreted: compiling would cost more than it saves, and random programs, or a Python loop
that runs a different number of times, meet each structure once.  Met again, it is compiled whole and kept in a
bounded cache.  XLA's time grows with the square of a graph's length, and so does the number of times that a long graph
must be met first; until then it is run in stretches (``stretches.py``).
Arguments that are tracers make no program at all: a recording takes the graph's nodes over, and any other JAX trace
gets them bound one by one.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad.graph import op as ops
from fgrad.graph.graph import Const, Graph, evaluate
from fgrad.graph.regions import PythonCall
from fgrad.jaxcore import ShapedArray, Trace, Tracer, copied, current_trace, is_evaluating, primitive, typeof
from fgrad.run.cache import Cache, clear_all
from fgrad.run.interpreter import interpret
from fgrad.run.stretches import LENGTH, Stretches, cut

PROGRAM_LIMIT = 4096
#: a graph of up to so many outputs is compiled whole in a time that does not depend on their number
FEW_OUTPUTS = 32
#: how often a graph of one stretch's length is run before it is compiled whole
PATIENCE = 32


class TakesGraphs(Trace):
    """A trace that can take over a whole graph at once."""

    __slots__ = ("order",)

    #: later recordings are inner ones: with values of several, the latest takes the graph
    order: int

    def splice(self, graph: Graph, args: Sequence[Any], source: Any = None) -> list[Any]:
        raise NotImplementedError


class Program:
    """A graph and, once it has been met often enough, its compiled form."""

    __slots__ = ("graph", "met", "compiled", "patience", "stretches")

    def __init__(self, graph: Graph, trials: int):
        self.graph = graph
        self.met = 0
        self.compiled: Any = None
        #: how often it is run in another way before it is compiled whole
        self.patience: float = inf if calls_python(graph) else trials
        self.stretches: Stretches | None = None

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on flat arguments; the flat results."""
        for x in args:
            if isinstance(x, Tracer):
                return _traced(self.graph, args)
        if self.compiled is not None:
            return self.compiled(*args)
        return self._unseen(args)

    def waits(self) -> bool:
        """Whether it is too early to compile the graph; if so, this counts as one run, which the caller does."""
        if self.compiled is not None or self.met >= self.patience:
            return False
        self.met += 1
        return True

    def _unseen(self, args: Sequence[Any]) -> Sequence[Any]:
        graph = self.graph
        self.met += 1
        if self.met > self.patience:
            compiled = jax.jit(lambda *args: evaluate(graph, args))
            try:
                outs = compiled(*args)
            except NotImplementedError:
                # a primitive has only an implementation in Python, and nothing that XLA could compile
                self.patience = inf
            else:
                self.compiled, self.stretches = compiled, None
                return outs
        if (
            len(graph.nodes) > LENGTH
            and self.patience < inf
            and is_evaluating(current_trace())
            and not any(map(_is_traced, graph.consts))
        ):
            if self.stretches is None:
                self.stretches = cut(graph)
            outs = self.stretches(args)
        elif self.patience < inf and is_evaluating(current_trace()):
            outs = interpret(graph, args)
        else:
            outs = evaluate(graph, args)
        return [_array(x, t) for x, t in zip(outs, graph.out_types, strict=True)]


def calls_python(graph: Graph) -> bool:
    """Whether a graph calls functions of the user's on its values."""
    return graph.effects and any(isinstance(node.op.primitive, PythonCall) for node in graph.nodes)


def patience(graph: Graph) -> int:
    """How often a long graph is run in stretches before it is compiled whole; 0 of one that is not long."""
    # to XLA a graph is as long as its nodes are many, and longer where it computes many outputs each from the start
    lengths = len(graph.nodes) * (1 + len(graph.outputs) // FEW_OUTPUTS) // LENGTH
    return PATIENCE * lengths**2


def _is_traced(const: Const) -> bool:
    return isinstance(const.value, Tracer)


def _traced(graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
    """Hand a graph on to what is being traced."""
    latest: TakesGraphs | None = None
    for x in args:
        if isinstance(x, Tracer):
            trace = x._trace
            if not isinstance(trace, TakesGraphs):
                return evaluate(graph, args)
            if latest is None or trace.order > latest.order:
                latest = trace
    assert latest is not None
    return latest.splice(graph, args)


def _array(value: Any, type: ShapedArray) -> Any:
    """An output of an interpreted graph as the compiled one would give it: it may be a scalar, or NumPy's."""
    if type.dtype == jax.dtypes.float0 or (isinstance(value, jax.Array) and typeof(value).weak_type == type.weak_type):
        return value
    if isinstance(value, np.ndarray) and not type.weak_type:
        return copied(value)
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return primitive("convert_element_type").bind(value, **params)


_programs: Cache[Graph, Program] = Cache(PROGRAM_LIMIT)


def program(graph: Graph) -> Program:
    """The program of a graph, shared by all graphs of equal structure."""
    found = _programs.get(graph)
    return _programs.enter(graph, Program(graph, 1 + patience(graph)), len(graph.nodes)) if found is None else found


def run(graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
    """Run a graph on flat values: arrays, or tracers of any kind.

    Tracers get this very graph, not an equal one that was met before: its source lines are its own.
    """
    if any(isinstance(x, Tracer) for x in args):
        return _traced(graph, args)
    return program(graph)(args)


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
    programs = list(_programs.values())
    return CacheInfo(len(programs), sum(p.compiled is not None for p in programs), ops.table_size())


def clear_cache() -> None:
    """Forget every program, template and interned operation; the next call of each function records and compiles anew.

    >>> import fgrad
    >>> fgrad.clear_cache()
    """
    clear_all()
    ops.clear_table()
