"""Joins of many operands: ``stack`` and ``cat`` of so many that recording them would cost more than joining.

NOTE [Joins of many]
A join of a thousand operands differs from one of a thousand and one only in a number, yet recorded it is a graph of its
own, with a pull-back of as many results.  Sequences that grow meet a new one at every step.  NumPy needs no graph to
join, and the gradients are pieces of the result's.  So a join of more than a few is recorded only when somebody asks
for its graph: a trace, a batch, a derivative of the derivative, a device.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad.mutable.layout.geometry import Geometry, Ints, Reading, memory_order
from fgrad.mutable.values.batched import Batched
from fgrad.mutable.values.device_of_value import accelerator_of, elsewhere
from fgrad.mutable.values.evaluation import Readings, Routine, is_abstract
from fgrad.seam import Graph, checks_each_primitive

#: joins of up to so many operands are recorded as any operation is
FEW = 16


class LazyRoutine(Routine):
    """A routine that NumPy runs without its graph, which is recorded when it is asked for."""

    __slots__ = ("_record", "_direct", "_recorded")

    defers: bool = False

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

    def recorded(self) -> Routine:
        found = self._recorded
        if found is None:
            found = self._recorded = Routine(self._record())
        return found

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
            return direct([_read(order[i], x) if i in order else x for i, x in enumerate(values)])

        return LazyRoutine(lambda: self.recorded().reading(readings).graph, read)


def _read(how: Reading, array: np.ndarray) -> np.ndarray:
    """The elements of a whole array in another order."""
    held, result = how.layout, how.result
    flat = array.transpose(memory_order(held.sizes, held.strides)).reshape(-1)
    order = memory_order(result.sizes, result.strides)
    return flat.reshape([result.sizes[i] for i in order]).transpose(np.argsort(order))


def _in_memory(value: Any) -> bool:
    if value.__class__ is np.ndarray:
        return True
    return not is_abstract(value) and isinstance(value, jax.Array) and accelerator_of(value) is None


@frozen
class Piece:
    """What a join's result has of one operand: the elements along an axis from ``start`` on, or those at it."""

    axis: int
    start: int
    #: None where the operand has not the axis
    length: int | None

    #: see ``Motion``
    whole = False

    def __call__(self, g: Geometry, *numbers: Any) -> Geometry:
        axis, length = self.axis, self.length
        kept = () if length is None else ((length, g.strides[axis]),)
        sizes, strides = (
            (*of[:axis], *of_axis, *of[axis + 1 :])
            for of, of_axis in ((g.sizes, [n for n, _ in kept]), (g.strides, [step for _, step in kept]))
        )
        return Geometry(sizes, strides, g.offset + self.start * g.strides[axis], g.dtype, g.conj, g.neg)

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it lies in an array; with an ellipsis it is an array, even a single number."""
        along = self.start if self.length is None else slice(self.start, self.start + self.length)
        return (*(slice(None),) * self.axis, along, ...)


@frozen
class Join:
    """A join of many operands of one element type: the shape of the result, how NumPy makes it, and its pieces."""

    shape: Ints
    join: Callable[[Sequence[Any]], np.ndarray]
    pieces: tuple[Piece, ...]

    def pulled(self, wanted: Sequence[int]) -> Callable[[Sequence[Any]], list[np.ndarray]]:
        """What gives, of the result's gradient, those of some operands."""
        pieces = [self.pieces[i] for i in wanted]
        return lambda values: [values[0][piece.place] for piece in pieces]
