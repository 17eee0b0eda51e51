"""Draws of random numbers as operations: from the states of generators to numbers and the next states.

The numbers are those that the generators would give.  A draw that is pure arithmetic runs on traced states.  One whose
consumption depends on the numbers (rejection) is a host callback, in which the generators get the real states.
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


class NeedsConcrete(Exception):
    """A draw needs concrete numbers: how many words it consumes depends on their values."""


def draw_key(draw: Any) -> Any:
    """Equal for draws that give the same numbers for the same states: their code, and what it closes over."""
    if not isinstance(draw, FunctionType):
        return draw
    closure = tuple([_hashable(cell.cell_contents) for cell in draw.__closure__ or ()])
    return draw.__code__, closure, _hashable(draw.__defaults__)


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
    """A draw from some generators, given their states; equal draws give the same numbers."""

    key: Any
    draw: Callable[..., np.ndarray] = field(eq=False)
    generators: tuple[Any, ...]
    #: whether the draw takes arrays of parameters
    has_parameters: bool

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The numbers and the next states, as the generators themselves give them."""
        count = len(arrays) - len(self.generators)
        parameters, states = [np.asarray(x) for x in arrays[:count]], [np.asarray(x) for x in arrays[count:]]
        with ExitStack() as locks:
            for generator in self.generators:
                locks.enter_context(generator.lock)
            saved = [generator.saved() for generator in self.generators]
            try:
                for generator, state in zip(self.generators, states, strict=True):
                    generator.restore(np.ascontiguousarray(state))
                value = self.draw(*parameters) if self.has_parameters else self.draw(())
                return np.ascontiguousarray(value), *[generator.saved() for generator in self.generators]
            finally:
                for generator, state in zip(self.generators, saved, strict=True):
                    generator.restore(state)

    def graph(self, types: Sequence[ShapedArray], sample: np.ndarray) -> Graph:
        """The graph of a draw: arithmetic on the states or, if it needs concrete numbers, one host callback."""
        states = [generator.saved() for generator in self.generators]
        types = [*types, *[array_type(state.shape, state.dtype) for state in states]]
        try:
            return recorded(self._arithmetic, types)
        except NeedsConcrete:
            return self._callback(types, sample)

    def _arithmetic(self, *arrays: Any) -> list[Any]:
        """The draw as operations on arrays: see NOTE [Draws in a program]."""
        count = len(arrays) - len(self.generators)
        with ExitStack() as contexts:
            pairs = zip(self.generators, arrays[count:], strict=True)
            engines = [contexts.enter_context(generator.lent(state)) for generator, state in pairs]
            value = self.draw(*arrays[:count]) if self.has_parameters else self.draw(())
            return [value, *[engine.state for engine in engines]]

    def _callback(self, types: Sequence[ShapedArray], sample: np.ndarray) -> Graph:
        """The graph of one host callback.  It passes bytes, as JAX would narrow 64-bit values to 32 bits."""
        outs = [sample, *[generator.saved() for generator in self.generators]]
        shapes = [jax.ShapeDtypeStruct((x.nbytes,), np.uint8) for x in outs]

        def call(*flat: Any) -> list[Any]:
            buffers = [_traced_bytes(x) for x in flat]
            outputs = jax.pure_callback(DrawOfBytes(self, tuple(types)), shapes, *buffers, vmap_method="sequential")
            return [_from_bytes(x, like) for x, like in zip(outputs, outs, strict=True)]

        return recorded(call, types)


@frozen
class DrawOfBytes:
    """A draw whose arrays are passed as bytes."""

    draw: Draw
    types: tuple[ShapedArray, ...]

    def __call__(self, *flat: Any) -> list[np.ndarray]:
        arrays = [np.asarray(x).view(t.dtype).reshape(t.shape) for x, t in zip(flat, self.types, strict=True)]
        return [_bytes_of(x) for x in self.draw(*arrays)]


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


def trial_draw(capture: Any, draw: Callable[..., np.ndarray], parameters: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The result of a draw, for its type, and the generators it draws from, whose states are restored."""
    before, capture.trial_states = capture.trial_states, {}
    try:
        sample = draw(*[np.ones(p.shape, p.dtype) for p in parameters]) if parameters else draw(())
    finally:
        states, capture.trial_states = capture.trial_states, before
        for generator, state in states.items():
            generator.restore(state)
    return sample, tuple(states)


def draw_graph(
    draw: Callable[..., np.ndarray], generators: tuple[Any, ...], parameters: Sequence[Any], sample: np.ndarray
) -> Graph:
    """A draw as an operation on arrays of parameters and the states of the generators."""
    function = Draw(draw_key(draw), draw, generators, bool(parameters))
    return function.graph([array_type(tuple(p.shape), p.dtype) for p in parameters], sample)
