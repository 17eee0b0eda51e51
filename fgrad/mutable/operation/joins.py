"""Joins of many operands: ``stack`` and ``cat`` of so many tensors that recording would cost more than joining.

NOTE [Joins of many]
Each number of operands makes a different graph, with a pull-back of as many results.  A growing sequence needs a new
one at every step.  NumPy needs no graph to join, and the gradients are slices of the result's.  So a join of more than
a few operands is recorded only when its graph is needed: under a trace, in a batch, for a second derivative, or on a
device.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad.mutable.layout.geometry import Geometry, Ints
from fgrad.mutable.values.batched import Batched
from fgrad.mutable.values.device_of_value import accelerator_of, elsewhere
from fgrad.mutable.values.evaluation import Readings, Routine, is_abstract
from fgrad.seam import Graph, checks_each_primitive

#: joins of up to so many operands are recorded like any operation
FEW = 16


class LazyRoutine(Routine):
    """A routine that NumPy runs without a graph; the graph is recorded on demand."""

    __slots__ = ("_record", "_direct", "_recorded")

    defers: bool = False
    #: it converts its operands
    kernel: Any = None
    at_once: Any = None

    def __init__(self, record: Callable[[], Graph], direct: Callable[[Sequence[Any]], list[np.ndarray]]):
        self._record = record
        self._direct = direct
        self._recorded: Routine | None = None

    @property
    def graph(self) -> Graph:  # type: ignore[override]
        return self.recorded().graph

    @property
    def joins(self) -> bool:
        return False

    @property
    def lost_by_numpy(self) -> float:
        return 0  # it is NumPy that joins and cuts

    def recorded(self) -> Routine:
        routine = self._recorded
        if routine is None:
            routine = self._recorded = Routine(self._record())
        return routine

    @property
    def kept(self) -> bool:
        return True

    def __call__(self, values: Sequence[Any]) -> Sequence[Any]:
        if elsewhere.exist or Batched.exist or checks_each_primitive() or not all(map(_in_memory, values)):
            return self.recorded()(values)
        outs = self._direct([np.asarray(x) for x in values])
        for x in outs:
            x.setflags(write=False)
        return outs

    def reading(self, readings: Readings) -> Routine:
        direct, order = self._direct, dict(readings)

        def read(values: Sequence[Any]) -> list[np.ndarray]:
            return direct([order[i].of(x) if i in order else x for i, x in enumerate(values)])

        return LazyRoutine(lambda: self.recorded().reading(readings).graph, read)


def _in_memory(value: Any) -> bool:
    if value.__class__ is np.ndarray:
        return True
    return not is_abstract(value) and isinstance(value, jax.Array) and accelerator_of(value) is None


@frozen
class Piece:
    """The part of a join's result from one operand: a slice along an axis from ``start`` on, or one index of it."""

    axis: int
    start: int
    #: None for ``stack``: the operand lacks the axis
    length: int | None

    def __call__(self, g: Geometry, *numbers: Any) -> Geometry:
        axis, length = self.axis, self.length
        axis_dims = () if length is None else ((length, g.strides[axis]),)
        sizes, strides = (
            (*of[:axis], *of_axis, *of[axis + 1 :])
            for of, of_axis in ((g.sizes, [n for n, _ in axis_dims]), (g.strides, [step for _, step in axis_dims]))
        )
        return Geometry(sizes, strides, g.offset + self.start * g.strides[axis], g.dtype, g.conj, g.neg)

    @property
    def index(self) -> tuple[Any, ...]:
        """Its index in an array; with an ellipsis, so that the result is an array even for a single number."""
        along = self.start if self.length is None else slice(self.start, self.start + self.length)
        return (*(slice(None),) * self.axis, along, ...)


@frozen
class Join:
    """A join of many operands of one dtype: the shape of the result, the NumPy function, and the pieces."""

    shape: Ints
    join: Callable[[Sequence[Any]], np.ndarray]
    pieces: tuple[Piece, ...]

    def pullback(self, wrt: Sequence[int]) -> Callable[[Sequence[Any]], list[np.ndarray]]:
        """The function from the result's gradient to the gradients of some operands."""
        pieces = [self.pieces[i] for i in wrt]
        return lambda values: [values[0][piece.index] for piece in pieces]
