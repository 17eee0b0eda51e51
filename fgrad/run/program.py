"""Running graphs: the first time node by node, from the second on as one compiled program.

NOTE [When a graph is compiled]
A structure met once is interpreted: compiling would cost more than it saves, and random programs, or a Python loop
that runs a different number of times, meet each structure once.  Met again, it is compiled whole and kept in a
bounded cache; a graph of many nodes must be met more often, since XLA's time grows faster than its length.
Arguments that are tracers make no program at all: a recording takes the graph's nodes over, and any other JAX trace
gets them bound one by one.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import jax
from attrs import frozen

from fgrad.graph import op as ops
from fgrad.graph.graph import Graph, evaluate
from fgrad.jaxcore import ShapedArray, Trace, Tracer, primitive

PROGRAM_LIMIT = 4096
#: how many nodes one extra sighting pays for
NODES_PER_SIGHTING = 2000


class TakesGraphs(Trace):
    """A trace that can take over a whole graph at once."""

    __slots__ = ("order",)

    #: later recordings are inner ones: with values of several, the latest takes the graph
    order: int

    def splice(self, graph: Graph, args: Sequence[Any], source: Any = None) -> list[Any]:
        raise NotImplementedError


class Program:
    """A graph and, once it has been met often enough, its compiled form."""

    __slots__ = ("graph", "met", "compiled")

    def __init__(self, graph: Graph):
        self.graph = graph
        self.met = 0
        self.compiled: Any = None

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run on flat arguments; the flat results."""
        for x in args:
            if isinstance(x, Tracer):
                return _traced(self.graph, args)
        if self.compiled is not None:
            return self.compiled(*args)
        return self._unseen(args)

    def _unseen(self, args: Sequence[Any]) -> Sequence[Any]:
        self.met += 1
        if self.met > 1 + len(self.graph.nodes) // NODES_PER_SIGHTING:
            graph = self.graph
            self.compiled = jax.jit(lambda *args: evaluate(graph, args))
            return self.compiled(*args)
        return [_array(x, t) for x, t in zip(evaluate(self.graph, args), self.graph.out_types, strict=True)]


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
    """An output of an interpreted graph as the compiled one would give it: a constant may be a scalar or NumPy's."""
    if isinstance(value, jax.Array) or type.dtype == jax.dtypes.float0:
        return value
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return primitive("convert_element_type").bind(value, **params)


_programs: OrderedDict[Graph, Program] = OrderedDict()
_lock = threading.Lock()


def program(graph: Graph) -> Program:
    """The program of a graph, shared by all graphs of equal structure."""
    found = _programs.get(graph)
    if found is None:
        with _lock:
            while len(_programs) >= PROGRAM_LIMIT:
                _programs.popitem(last=False)
            found = _programs.setdefault(graph, Program(graph))
    return found


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
    with _lock:
        return CacheInfo(len(_programs), sum(p.compiled is not None for p in _programs.values()), ops.table_size())


_caches: list[Any] = []


def clears(cache: Any) -> Any:
    """Have ``clear_cache`` empty this dict too."""
    _caches.append(cache)
    return cache


def clear_cache() -> None:
    """Forget every program, template and interned operation; the next call of each function records and compiles anew.

    >>> import fgrad
    >>> fgrad.clear_cache()
    """
    with _lock:
        _programs.clear()
    for cache in list(_caches):
        cache.clear()
    ops.clear_table()
