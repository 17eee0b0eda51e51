"""Large operations wait until somebody reads a value, and then run together as one program.

NOTE [Large operations wait]
What a small operation costs is its Python; a large one costs its pass through memory.  So an operation on large arrays
that computes each element from few (functions of elements, sums along axes, movements) is put on the *backlog* of its
thread, and its result is a ``Deferred``: a type, and the number of the value there.  Whoever reads the array has the
backlog run.  Only those values are computed and kept that somebody still holds: what only other operations have read
never reaches memory, and that is most of a forward pass, once backward has been put on the same backlog.

- Types, shapes and errors are those of the plan, which is made at once.
- A storage whose array waits is a ``DeferredStorage``; to read its ``array`` is to run the backlog.  So a reader that
  knows nothing of all this is right, and only ``apply`` and the nodes of operations hand waiting values on.
- Arrays are immutable, so an operand may be written meanwhile.
- A backlog runs at the latest when it is as long, or holds as many bytes, as the policy allows.
- An operation that fails as it runs, for want of memory, raises from whatever reads it or needs it; the error names its
  line, and all other values can still be read.

Backlogs of the same structure share one program.  Until that pays, or while it is compiled, the operations run one by
one, as they would have at once: see ``fusion.py``.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.values.evaluation import Routine
from fgrad.mutable.values.fusion import STRUCTURES_KEPT, Fusion, compiling_price, timed
from fgrad.seam import (
    Builder,
    Cache,
    RawSource,
    Source,
    active,
    checks_each_primitive,
    here,
    in_memory,
    pieces,
    simplify,
    with_x64,
)


class Deferred:
    """A value that waits on a backlog."""

    __slots__ = ("backlog", "number", "shape", "dtype", "_array", "__weakref__")

    def __init__(self, backlog: "Backlog", number: int, shape: tuple[int, ...], dtype: np.dtype):
        #: None once it has its elements
        self.backlog: Backlog | None = backlog
        self.number: int = number
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype = dtype
        self._array: Any = None

    def array(self) -> Any:
        """The elements, for which its backlog runs."""
        backlog = self.backlog
        if backlog is not None:
            backlog.run(self)
        return self._array

    def become(self, array: Any) -> None:
        """Receive the elements."""
        if self._array is None:
            self._array = array
        self.backlog = None


def computed(value: Any) -> Any:
    """A value that does not wait."""
    return value.array() if value.__class__ is Deferred else value


_fusions: Cache[Any, Fusion] = Cache(STRUCTURES_KEPT)


class Backlog:
    """Operations that wait, in order.

    An entry refers to input ``k`` as ``-1 - k``, and to a result by its number.  Only running takes the lock: an
    operation appended while another thread or a signal handler starts to run the backlog is appended again, to a new
    one (``defer``).
    """

    __slots__ = ("entries", "inputs", "numbers", "results", "bytes", "closed", "done", "lock", "__weakref__")

    def __init__(self) -> None:
        #: what is run, what it reads, its first result, and the user's line
        self.entries: list[tuple[Routine, tuple[int, ...], int, RawSource | None]] = []
        self.inputs: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.results: list[weakref.ref[Deferred]] = []
        self.bytes: int = 0
        self.closed: bool = False
        self.done: bool = False
        self.lock: Any = threading.RLock()

    def append(self, routine: Routine, values: Sequence[Any]) -> list[Any]:
        """Put an operation on the backlog; its results.  Operands that wait are on this same backlog."""
        refs = [x.number if x.__class__ is Deferred else self._input(x) for x in values]
        first = len(self.results)
        outs = [Deferred(self, first + k, t.shape, t.dtype) for k, t in enumerate(routine.graph.out_types)]
        self.results += map(weakref.ref, outs)
        node = modes.evaluating
        source = here() if node is None or node.calls_user else node._source or here()
        self.entries.append((routine, tuple(refs), first, source))
        return outs

    def _input(self, value: Any) -> int:
        number = self.numbers.get(id(value))
        if number is None:
            self.inputs.append(value)
            number = self.numbers[id(value)] = -len(self.inputs)
            self.bytes += value.nbytes
        return number

    @property
    def full(self) -> bool:
        policy = active()
        return len(self.entries) >= policy.deferred_operations or self.bytes > policy.deferred_bytes

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, wanted: Deferred | None = None) -> None:
        """Compute what somebody still holds.

        Raises:
          Exception: the operation failed that gives ``wanted``, or one that this needs.
        """
        self.closed = True
        with self.lock:
            self._run(wanted)  # a call: see NOTE [Signals]

    def _run(self, wanted: Deferred | None) -> None:
        if self.done or (wanted is not None and wanted.backlog is None):
            return
        live = {k: x for k, ref in enumerate(self.results) if (x := ref()) is not None and x.backlog is not None}
        if live:
            try:
                outs = self._computed(tuple(live))
            except Exception:
                self._give_each(live, wanted)
                return
            for x, out in zip(live.values(), outs, strict=True):
                x.become(out)
        self.done = True
        self.entries, self.inputs, self.numbers, self.results = [], [], {}, []

    def _computed(self, live: tuple[int, ...]) -> Sequence[Any]:
        entries = self.entries
        if len(entries) == 1:
            outs = entries[0][0](self.inputs_of(entries[0][1]))
            return [outs[k] for k in live]
        key = tuple([x for routine, refs, _, _ in entries for x in (routine, *refs)]), live
        fusion = _fusions.get(key)
        if fusion is None:
            fusion = _fusions.enter(key, Fusion(compiling_price([entry[0] for entry in entries])), len(entries))
        program = fusion.program(lambda: self.routine(live))
        if program is not None:
            return fusion.run(program, self.inputs)
        if fusion.unspent == inf:
            return self._one_by_one(live)
        outs, took = timed(lambda: self._one_by_one(live), self.inputs)
        fusion.spend(took)
        return outs

    def inputs_of(self, refs: Sequence[int]) -> list[Any]:
        return [self.inputs[-1 - k] for k in refs]

    def routine(self, live: Sequence[int]) -> Routine:
        """The program of all operations."""
        types: dict[int, Any] = {}
        for routine, refs, _, _ in self.entries:
            types.update(zip(refs, routine.graph.in_types, strict=True))
        return with_x64(self._routine, [types[-1 - k] for k in range(len(self.inputs))], live)

    def _routine(self, types: Sequence[Any], live: Sequence[int]) -> Routine:
        builder = Builder(types)
        numbers = {-1 - k: i for k, i in enumerate(builder.inputs)}
        for routine, refs, first, _ in self.entries:
            outs = builder.splice(routine.graph, [numbers[k] for k in refs])
            numbers.update(enumerate(outs, first))
        return Routine(simplify(builder.finish([numbers[k] for k in live], builder.inputs)), pieces)

    def _one_by_one(self, live: Sequence[int]) -> list[Any]:
        """Run what leads to some results, as each operation would have run at once."""
        last: dict[int, int] = dict.fromkeys(live, len(self.entries))
        steps: list[int] = []
        for at in range(len(self.entries) - 1, -1, -1):
            routine, refs, first, _ = self.entries[at]
            if any(k in last for k in range(first, first + len(routine.graph.out_types))):
                steps.append(at)
                for k in refs:
                    last.setdefault(k, at)
        values: dict[int, Any] = {-1 - k: x for k, x in enumerate(self.inputs)}
        for at in reversed(steps):
            self._step(at, values)
            for k in self.entries[at][1]:
                if last[k] == at:
                    values.pop(k, None)
        return [values[k] for k in live]

    def _step(self, at: int, values: dict[int, Any]) -> None:
        routine, refs, first, source = self.entries[at]
        try:
            values.update(enumerate(routine([values[k] for k in refs]), first))
        except Exception as error:
            if source is not None:
                error.add_note(f"In the operation at {Source(*source)}, which waited until its value was read.")
            raise

    def _give_each(self, live: dict[int, Deferred], wanted: Deferred | None) -> None:
        """Compute each value by itself, where all together failed; the wanted one's failure is raised."""
        for k, x in live.items():
            try:
                x.become(self._one_by_one((k,))[0])
            except Exception:
                if x is wanted:
                    raise


class _Thread(threading.local):
    """The backlog of a thread, which lives as long as one of its results."""

    backlog: Callable[[], Backlog | None] = staticmethod(lambda: None)


_thread = _Thread()


def _run_before_fork() -> None:
    """Run what waits in this thread: XLA does not run in a forked process."""
    backlog = _thread.backlog()
    if backlog is not None:
        backlog.run()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_run_before_fork)


def defer(routine: Routine, values: Sequence[Any]) -> Sequence[Any]:
    """Run a routine on values that may wait; its results may, too."""
    if not routine.joins or checks_each_primitive():
        return routine([computed(x) for x in values])
    backlog = _thread.backlog()
    if backlog is not None and backlog.full:
        backlog.run()
    if backlog is None or backlog.closed:
        backlog = Backlog()
        _thread.backlog = weakref.ref(backlog)
    operands = [x if x.__class__ is not Deferred or x.backlog is backlog else x.array() for x in values]
    if routine.passed is not None:
        return [operands[i] for i in routine.passed]
    if not (routine.defers or any(x.__class__ is Deferred for x in operands)) or not all(map(_may_wait, operands)):
        return routine([computed(x) for x in operands])
    outs = backlog.append(routine, operands)
    # closed since: ``outs`` may have missed the run
    return defer(routine, values) if backlog.closed else outs


def _may_wait(value: Any) -> bool:
    """Whether a value waits, or is an array of the CPU's that nobody traces."""
    return value.__class__ is np.ndarray or value.__class__ is Deferred or in_memory(value)
