"""Windows: for each place of a pooled axis, the places of the input that it covers.

NOTE [Pooling by tables]
Every pooling is a list of windows along each axis, whatever strides, paddings, dilations or adaptive bounds made them.
Their product is a table with a row for each output and, in the row, the places that its window covers in the flattened
image, those of a row that is too short filled up.  Taking the elements by this table makes one function of them all.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.torch.ops.reductions.extrema import index_of_largest

#: windows of so many elements are gone through element by element: XLA takes four times as long to reduce short rows
SMALL = 9

#: the places that each window along one axis covers
Windows = Sequence[Sequence[int]]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows there are along an axis (aten/src/ATen/native/Pool.h, pooling_output_shape)."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def regular(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> Windows:
    """Windows at regular steps; of those over an end, what is inside."""
    starts = [i * stride - padding for i in range(count)]
    return [[p for p in range(s, s + dilation * kernel, dilation) if 0 <= p < size] for s in starts]


def adaptive(size: int, count: int) -> Windows:
    """So many windows, as even as can be, that cover an axis."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


@frozen(eq=False)
class Table:
    """The windows of an image: ``places`` has a row for each output, ``inside`` says which entries of it count."""

    places: np.ndarray
    inside: np.ndarray

    def shaped(self, sizes: Ints) -> "Table":
        """The table with the outputs in the axes of an image."""
        shape = (*sizes, self.places.shape[-1])
        return Table(self.places.reshape(shape), self.inside.reshape(shape))

    def taken(self, image: Any, filling: Any) -> Any:
        """The elements of each window: axes (..., outputs, window) from images whose flattened axis is the last one."""
        found = jnp.take(image, self.places, axis=-1)
        return found if self.inside.all() else jnp.where(self.inside, found, filling)

    def largest(self, window: Any) -> Any:
        """The places of the largest of the elements that were taken: the first of several, or the last NaN."""
        *outputs, width = self.places.shape
        if not 0 < width <= SMALL:
            rows = np.arange(math.prod(outputs)).reshape(outputs)
            return jnp.take(self.places.reshape(-1), rows * width + largest(window), mode="clip")
        best, place = window[..., 0], jnp.broadcast_to(self.places[..., 0], window.shape[:-1])
        for i in range(1, width):  # one that is not itself is a NaN
            other = window[..., i]
            better = (other > best) | (other != other)
            best, place = jnp.where(better, other, best), jnp.where(better, self.places[..., i], place)
        return place


def table(sizes: Ints, windows: Sequence[Windows]) -> Table:
    """The windows of an image from those of its axes."""
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    rows = [
        [sum(p * s for p, s in zip(place, steps, strict=True)) for place in itertools.product(*window)]
        for window in itertools.product(*windows)
    ]
    widest = max(map(len, rows), default=0)
    inside = np.array([[i < len(row) for i in range(widest)] for row in rows], bool).reshape(len(rows), widest)
    places = np.zeros((len(rows), widest), np.int64)
    places[inside] = np.array([p for row in rows for p in row], np.int64)
    return Table(places, inside)


def largest(window: Any) -> Any:
    """Where in each window (the last axis) its largest element is: the first of several, or the last NaN."""
    found = index_of_largest(window, window.ndim - 1)
    if not jnp.issubdtype(window.dtype, np.floating):
        return found
    last = jnp.max(jnp.where(jnp.isnan(window), np.arange(window.shape[-1]), -1), -1)
    return jnp.where(last >= 0, last, found)


def lowest(dtype: np.dtype[Any]) -> Any:
    """What no element is below."""
    return np.array(-np.inf if jnp.issubdtype(dtype, np.floating) else np.iinfo(dtype).min, dtype)
