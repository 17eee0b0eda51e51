"""Draws of random numbers as operations: from the states of streams to numbers and the next states.

The numbers are those that the streams would give.  A stream whose generator is arithmetic is lent a traced state.
A draw whose consumption depends on the numbers (rejection) is a host callback, in which the stream is lent the real
state.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FunctionType
from typing import Any

import jax
import numpy as np
from attrs import field, frozen
from jax import lax

from fgrad.mutable.values.evaluation import array_type, recorded
from fgrad.seam import Graph, ShapedArray


class OnHost(Exception):
    """A draw needs concrete numbers: how many words it consumes depends on their values."""


def draw_key(draw: Any) -> Any:
    """What draws that give the same numbers for the same states have in common: the code, and what it closes over."""
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
    """A draw from some streams, given their states; equal draws give the same numbers."""

    key: Any
    draw: Callable[..., np.ndarray] = field(eq=False)
    sources: tuple[Any, ...]
    #: whether the draw takes arrays of parameters
    takes: bool

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The numbers and the next states, as the streams themselves give them."""
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
        """The graph of a draw: arithmetic on the states or, if it needs concrete numbers, one host callback."""
        states = [array_type(state.shape, state.dtype) for state in (source.saved() for source in self.sources)]
        try:
            return recorded(self._arithmetic, [*types, *states])
        except OnHost:
            return self._called([*types, *states], sample)

    def _arithmetic(self, *arrays: Any) -> list[Any]:
        """The draw by generators written as operations on arrays: see NOTE [Draws in a program]."""
        count = len(arrays) - len(self.sources)
        with ExitStack() as lent:
            engines = [lent.enter_context(s.lent(state)) for s, state in zip(self.sources, arrays[count:], strict=True)]
            value = self.draw(*arrays[:count]) if self.takes else self.draw(())
            return [value, *[engine.state for engine in engines]]

    def _called(self, types: Sequence[ShapedArray], sample: np.ndarray) -> Graph:
        """The graph of one host callback.  It passes bytes, for JAX would narrow 64-bit values to 32 bits."""
        outs = [sample, *[source.saved() for source in self.sources]]
        shapes = [jax.ShapeDtypeStruct((x.nbytes,), np.uint8) for x in outs]

        def call(*flat: Any) -> list[Any]:
            given = [_traced_bytes(x) for x in flat]
            found = jax.pure_callback(OfBytes(self, tuple(types)), shapes, *given, vmap_method="sequential")
            return [_from_bytes(x, like) for x, like in zip(found, outs, strict=True)]

        return recorded(call, types)


@frozen
class OfBytes:
    """A draw whose arrays are passed as bytes."""

    draw: Draw
    types: tuple[ShapedArray, ...]

    def __call__(self, *flat: Any) -> list[np.ndarray]:
        given = [np.asarray(x).view(t.dtype).reshape(t.shape) for x, t in zip(flat, self.types, strict=True)]
        return [_bytes_of(x) for x in self.draw(*given)]


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _traced_bytes(array: Any) -> Any:
    flat = array.reshape(-1)
    return flat.astype(np.uint8) if flat.dtype == bool else lax.bitcast_convert_type(flat, np.uint8).reshape(-1)


def _from_bytes(flat: Any, like: np.ndarray) -> Any:
    if like.dtype == bool:
        return flat.reshape(like.shape).astype(bool)
    size = like.dtype.itemsize
    return lax.bitcast_convert_type(flat.reshape(like.shape if size == 1 else (*like.shape, size)), like.dtype)


def tried(capturing: Any, draw: Callable[..., np.ndarray], parameters: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The result of a draw, for its type, and the streams it draws from, whose states are restored."""
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
