"""The one place where operations are evaluated: their recorded graphs run under the policy in force.

NOTE [Evaluation is a policy]
Nothing in this layer computes with arrays directly.  An operation is recorded once for its types into a graph, and only
``Routine.__call__`` turns a graph and values into new values.  The graph runs on the back end that the current policy
chooses (NOTE [Back ends in order]), at once or as part of a larger graph (NOTE [Large operations wait]).

NOTE [NumPy begets NumPy]
A small routine runs on NumPy if all its values are NumPy arrays: results of other small routines, and small arrays
from the user.  If XLA runs it because it is faster, its results are still converted to NumPy arrays; otherwise
everything computed from them would go to XLA, at ten times the cost.  A compiled program accepts NumPy arrays directly,
ten times faster than JAX converts them.

Results of large programs, and those of JAX's arrays, stay JAX arrays, even single numbers: converting one would block
until the program is done, and JAX dispatches asynchronously.  So for small graphs the kind of the values decides which
back end computes, for large ones measured time does: NOTE [Rent or buy].  Only small results of an optimiser become
NumPy arrays again: a step ends there, and the next one begins with them (``at_hand``).

NOTE [64-bit values beside JAX's flag]
PyTorch's default integers have 64 bits whatever ``jax_enable_x64`` says.  Graphs are recorded with that flag on, in
this thread only, and so are those with 64-bit values run; user code never runs with it.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy import ndarray

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.reading import Reading
from fgrad.mutable.values.batched import Batched, unbatched
from fgrad.mutable.values.device_of_value import Absent, accelerated, accelerator_of, at, elsewhere, made_at, on_cpu
from fgrad.seam import (
    SILENT,
    WIDE,
    Builder,
    Executable,
    Graph,
    PaceOf,
    Region,
    ShapedArray,
    Tracer,
    active,
    bind,
    checks_each_primitive,
    copied,
    evaluate,
    here,
    in_memory,
    may_wait,
    on_accelerators,
    operations,
    simplify,
    stage_closed,
    unsourced,
    with_x64,
)

#: makes a context in which NumPy does not warn; every operation needs one
silent = SILENT.copy

#: the classes of concrete arrays; JAX's are added as they occur
_ARRAYS: set[type] = {np.ndarray}

#: the positions of inputs that are read from whole storages, with their readings
Readings = tuple[tuple[int, Reading], ...]


class Routine(Executable):
    """A graph that runs on the values of tensors: arrays on any device, batched arrays, and tracers."""

    __slots__ = (
        "passed",
        "constant",
        "wide",
        "small",
        "largest",
        "defers",
        "at_once",
        "_joins",
        "_reading",
        "_accelerated",
    )

    def __init__(self, graph: Graph, pace_of: PaceOf = operations):
        #: for a graph without nodes, which inputs are its outputs: values are immutable, so they may be shared
        self.passed: tuple[int, ...] | None = None
        if not graph.nodes and all(i < len(graph.in_types) for i in graph.outputs):
            self.passed = graph.outputs
        self.wide: bool = False
        #: the elements of the largest value in it
        self.largest: int = 0
        for t in graph.types:
            if t.dtype in WIDE:
                self.wide = True
            size = math.prod(t.shape)
            if size > self.largest:
                self.largest = size
        for node in graph.nodes:
            if isinstance(node.op.primitive, Region):
                self.wide = True
        #: whether its results from NumPy arrays are NumPy arrays, whatever the back end
        self.small: bool = False
        self._reading: dict[Readings, Routine] = {}
        #: the same for values on accelerators, once there were any
        self._accelerated: Routine | None = None
        super().__init__(graph, pace_of)

    def stop(self) -> None:
        super().stop()
        #: the results of a graph that NumPy runs and that reads no input: the same arrays each time
        self.constant: Sequence[Any] | None = None
        #: whether it may wait together with what it reads, once that was asked, and whether it waits by itself: see
        #: NOTE [Large operations wait]
        self._joins: bool | None = None
        self.defers: bool = self.largest >= active().deferred_size and self.joins and bool(self.graph.nodes)
        #: the NumPy program, if it runs the graph permanently and without waiting
        self.at_once: Any = None

    def begin(self) -> None:
        super().begin()
        self.small = self.largest <= self._pace_of(active()).numpy_kept_size
        if self.numpy is not None and not _reads_inputs(self.graph):
            constant = self.constant = self.numpy([np.empty(0)] * len(self.graph.in_types))
            self.numpy: Any = lambda values: constant
        if self.defers:
            self.kernel = None
        else:
            self.at_once = self.numpy

    @property
    def joins(self) -> bool:
        """Whether it may wait together with what it reads."""
        joins = self._joins
        if joins is None:
            joins = self._joins = active().deferred_size < math.inf and may_wait(self.graph)
        return joins

    @property
    def lost_by_numpy(self) -> float:
        """The seconds that a run may take longer by NumPy than as it runs now; infinite if NumPy cannot run it."""
        if not self.begun:
            with_x64(self.begin)
        if self.numpy is not None or self.passed is not None or (self._new is not None and self._unspent > 0):
            return 0
        return self._fastest

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        # the hot path: NumPy arrays are on the CPU, wherever others may be
        run = self.numpy
        if run is not None:
            for x in args:
                if x.__class__ is not ndarray:
                    break
            else:
                if not checks_each_primitive():
                    kernel = self.kernel
                    if kernel is None:
                        return silent().run(run, args)
                    out = silent().run(kernel, *args)
                    out.setflags(False)  # write=False; twice as fast by position
                    return (out,)
        return self._elsewhere(args) if elsewhere.exist else self._here(args)

    def _elsewhere(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run on the values' device: see NOTE [A value knows its device]."""
        for x in values:
            if x.__class__ is Absent:
                return [Absent(t.shape, t.dtype) for t in self.graph.out_types]
        target = next((device for x in values if (device := accelerator_of(x)) is not None), None)
        if target is None:
            with on_cpu():
                return self._here(values)
        # uncommitted arrays follow the others
        moved = [np.asarray(x) if _on_cpu(x) else x for x in values]
        routine = self._accelerated
        if routine is None:
            routine = self._accelerated = _Accelerated(self.graph, on_accelerators)
        with jax.default_device(target):
            outs = routine(moved)
        given = set(map(id, moved))
        return [at(x, target) if id(x) in given else made_at(x, target) for x in outs]

    def _here(self, values: Sequence[Any]) -> Sequence[Any]:
        if self.passed is not None:
            return [values[i] for i in self.passed]
        if self.constant is not None and not Batched.exist:
            return self.constant
        for x in values:
            if x.__class__ is not np.ndarray:
                break
        else:
            new = self._new
            if new is not None and self._unspent > 0 and not checks_each_primitive():
                return self._by_numpy(new, values)
            outs = self._by_jax(values)
            return [x if is_abstract(x) else np.asarray(x) for x in outs] if self.small else outs
        return self._by_jax(values)

    def _by_jax(self, values: Sequence[Any]) -> Sequence[Any]:
        compiled = self.compiled
        if compiled is not None:
            for x in values:
                if x.__class__ not in _ARRAYS:
                    break
            else:
                return with_x64(compiled, *values) if self.wide else compiled(*values)
        return self._run(values)

    def _run(self, values: Sequence[Any]) -> Sequence[Any]:
        _ARRAYS.update([x.__class__ for x in values if isinstance(x, jax.Array) and not is_abstract(x)])
        if Batched.exist:
            for x in values:
                if x.__class__ is Batched:
                    return _run_batched(self, values)
        if self.wide:
            return with_x64(super().__call__, values)
        return super().__call__(values)

    def bound(self, args: Sequence[Any]) -> Sequence[Any]:
        # the graph is shared by all lines, and has none; backward belongs to the line of its node
        node = modes.evaluating
        return bind(self.graph, args, here() if node is None or node.calls_user else node._source or here())

    def ready(self) -> bool:
        return with_x64(super().ready) if self.wide else super().ready()

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        return outs  # see NOTE [NumPy begets NumPy]

    def reading(self, readings: "Readings") -> "Routine":
        """The routine that reads some inputs from whole storages in another order, without copying them.

        XLA reads a transposed matrix factor in place, for one.
        """
        routine = self._reading.get(readings)
        if routine is None:
            graph = self.graph
            order = dict(readings)
            types = [
                array_type(order[i].layout.sizes, t.dtype) if i in order else t for i, t in enumerate(graph.in_types)
            ]

            builder = Builder(types)
            read = [builder.splice(order[i].graph, [i])[0] if i in order else i for i in range(len(types))]
            joined = builder.finish(builder.splice(graph, read))
            routine = self._reading[readings] = Routine(with_x64(simplify, joined))
        return routine


class _Accelerated(Routine):
    """A routine that runs where JAX's default device is: the accelerator that its values are on."""

    __slots__ = ()

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        return self._here(args)


def _on_cpu(value: Any) -> bool:
    return isinstance(value, jax.Array) and not isinstance(value, Tracer) and accelerator_of(value) is None


def _reads_inputs(graph: Graph) -> bool:
    read = {i for node in graph.nodes for i in node.inputs}.union(graph.outputs)
    return any(i in read for i in range(len(graph.in_types)))


#: how many batched routines are kept
BATCHED_KEPT = 1 << 14


def _run_batched(routine: Routine, values: Sequence[Any]) -> Sequence[Any]:
    """Run on values some of which are batched: see NOTE [Batching is below the tape]."""
    level = max([x.level for x in values if x.__class__ is Batched])
    mapped = tuple([x.__class__ is Batched and x.level == level for x in values])
    arrays = [x.array if m else x for x, m in zip(values, mapped, strict=True)]
    size = arrays[mapped.index(True)].shape[0]
    return [Batched(x, level) for x in _batched(routine, mapped, size)(arrays)]


@lru_cache(BATCHED_KEPT)
def _batched(routine: Routine, mapped: tuple[bool, ...], size: int) -> Routine:
    """The routine with a batch axis in front of some of its inputs and all of its outputs."""
    graph = routine.graph
    axes = tuple([0 if m else None for m in mapped])
    types = [array_type((size, *t.shape), t.dtype) if m else t for t, m in zip(graph.in_types, mapped, strict=True)]
    over_examples = jax.vmap(lambda *flat: tuple(evaluate(graph, flat)), in_axes=axes, axis_size=size)
    return Routine(recorded(lambda *flat: over_examples(*flat), types))


def recorded(function: Callable[..., Sequence[Any]], types: Sequence[ShapedArray]) -> Graph:
    """The graph of a function of arrays, recorded on types; it has no source lines, since all lines share it."""
    return unsourced(with_x64(stage_closed, function, types))


def array_type(shape: tuple[int, ...], dtype: Any) -> ShapedArray:
    """The type of an array, as used in graphs."""
    return ShapedArray(shape, np.dtype(dtype))


def is_abstract(value: Any) -> bool:
    """Whether a value is traced or on ``meta``, so that its elements are not known."""
    return isinstance(value, Tracer | Batched | Absent)


def concrete(value: Any) -> np.ndarray:
    """The elements of a value, waiting for them if need be."""
    return np.asarray(value)


def elements(value: Any) -> np.ndarray | None:
    """All elements that a value holds, of every example if it is batched; None if they are unknown."""
    value = unbatched(value)
    return None if is_abstract(value) else concrete(value)


def counted(value: Any, refusal: str) -> np.ndarray:
    """The elements of a value that determine the shape of a result.

    Raises:
      RuntimeError: ``refusal``; under ``vmap``, where each example's shape would differ.
    """
    if value.__class__ is Batched:
        raise RuntimeError(f"vmap: {refusal}")
    return concrete(value)


def dynamic(function: str) -> str:
    """The message that refuses a function whose result shape differs between examples."""
    return (
        f"We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{function}. "
        "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
    )


def constant(value: np.ndarray) -> Any:
    """A NumPy array, copied, as a value: see NOTE [NumPy begets NumPy]."""
    if value.size > NUMPY_SIZE:
        return _put(value)
    accelerated()  # the first value determines JAX's default device: importing must not start a backend
    array = np.array(value, order="C")
    array.setflags(write=False)
    return array


def at_hand(value: Any, size: int) -> Any:
    """A value of this many elements; a small JAX array as a NumPy array, waiting for its program."""
    if value.__class__ in _ARRAYS and value.__class__ is not np.ndarray and size <= NUMPY_SIZE and in_memory(value):
        return np.asarray(value)
    return value


def as_jax(value: Any) -> Any:
    """A value for JAX: a JAX array or a tracer."""
    return _put(value) if isinstance(value, np.ndarray) else value


def _put(value: np.ndarray) -> Any:
    with on_cpu():
        return with_x64(copied, value)


#: the user's arrays with more elements than this are passed to JAX at once
NUMPY_SIZE = 1 << 17
#: constant-filled arrays are cached up to this many elements, and at most so many arrays
FILLED_SIZE, FILLED_KEPT = 4096, 256


def filled(shape: tuple[int, ...], dtype: np.dtype, number: int) -> Any:
    """A constant-filled array."""
    if math.prod(shape) > FILLED_SIZE:
        return constant(np.full(shape, number, dtype))
    return _filled(shape, dtype, number)


@lru_cache(FILLED_KEPT)
def _filled(shape: tuple[int, ...], dtype: np.dtype, number: int) -> Any:
    return constant(np.full(shape, number, dtype))
