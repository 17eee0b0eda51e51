"""Draws of random numbers as operations: from the states of streams to numbers and the next states.

The numbers are those that the streams would give: the operation calls the host, where the stream is lent the state.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FunctionType
from typing import Any

import jax
import numpy as np
from attrs import field, frozen

from fgrad.mutable.values.evaluation import array_type, recorded
from fgrad.seam import Graph, ShapedArray


def draw_key(draw: Any) -> Any:
    """What two draws share that give the same numbers for the same states: the code, and what it closes over."""
    if not isinstance(draw, FunctionType):
        return draw
    held = tuple([_hashable(cell.cell_contents) for cell in draw.__closure__ or ()])
    return draw.__code__, held, _hashable(draw.__defaults__)


def _hashable(value: Any) -> Any:
    if isinstance(value, FunctionType):
        return draw_key(value)
    if isinstance(value, list | tuple | range):
        return tuple([_hashable(each) for each in value])
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


@frozen
class Draw:
    """A draw from some streams, which is lent their states: equal ones give the same numbers."""

    key: Any
    draw: Callable[..., np.ndarray] = field(eq=False)
    sources: tuple[Any, ...]
    #: whether the draw takes arrays of parameters
    takes: bool

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        count = len(arrays) - len(self.sources)
        given, states = [np.asarray(x) for x in arrays[:count]], [np.asarray(x) for x in arrays[count:]]
        with ExitStack() as locks:
            for source in self.sources:
                locks.enter_context(source.lock)
            held = [source.saved() for source in self.sources]
            try:
                for source, state in zip(self.sources, states, strict=True):
                    source.restore(np.ascontiguousarray(state))
                value = self.draw(*given) if self.takes else self.draw(())
                return np.ascontiguousarray(value), *[source.saved() for source in self.sources]
            finally:
                for source, state in zip(self.sources, held, strict=True):
                    source.restore(state)

    def graph(self, types: Sequence[ShapedArray], sample: np.ndarray) -> Graph:
        """The graph of one call of the host."""
        states = [array_type(state.shape, state.dtype) for state in (source.saved() for source in self.sources)]
        outs = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in (sample, *states)]
        return recorded(lambda *flat: jax.pure_callback(self, outs, *flat, vmap_method="sequential"), [*types, *states])


def tried(capturing: Any, draw: Callable[..., np.ndarray], parameters: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """What a draw gives, for its type, and the streams that it draws from, which are as they were."""
    before, capturing.drawing = capturing.drawing, {}
    try:
        sample = draw(*[np.ones(p.shape, p.dtype) for p in parameters]) if parameters else draw(())
    finally:
        drawn, capturing.drawing = capturing.drawing, before
        for source, state in drawn.items():
            source.restore(state)
    return sample, tuple(drawn)


def draw_graph(
    draw: Callable[..., np.ndarray], sources: tuple[Any, ...], parameters: Sequence[Any], sample: np.ndarray
) -> Graph:
    """A draw as an operation on arrays of parameters and the states of the streams."""
    function = Draw(draw_key(draw), draw, sources, bool(parameters))
    return function.graph([array_type(tuple(p.shape), p.dtype) for p in parameters], sample)
