"""Windows: for each position of a pooled axis, the positions of the input that it covers.

NOTE [Pooling by tables]
Every pooling is a list of windows along each axis, whatever strides, paddings, dilations or adaptive bounds made them.
Their product is a table with a row for each output: the flat indices of the elements that its window covers, padded to
one length.  Gathering by this table makes one function of them all.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import lax, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.layout.geometry import Ints
from fgrad.torch.ops.indexing.coordinates import take_along, take_known
from fgrad.torch.ops.reductions.extrema import index_of_largest
from fgrad.torch.ops.table.broadcasting import choose

#: windows up to this size are reduced element by element: XLA takes four times as long to reduce short rows
SMALL = 9

#: the positions that each window along one axis covers
Windows = Sequence[Sequence[int]]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """The number of windows along an axis (aten/src/ATen/native/Pool.h, pooling_output_shape)."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def regular(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> Windows:
    """Windows at regular steps, cut off at the ends of the axis."""
    starts = [i * stride - padding for i in range(count)]
    return [[p for p in range(s, s + dilation * kernel, dilation) if 0 <= p < size] for s in starts]


def adaptive(size: int, count: int) -> Windows:
    """``count`` windows, as even as possible, that cover an axis."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


@frozen(eq=False)
class Table:
    """The windows of an image: ``flat_indices`` has a row for each output, ``inside`` says which entries count."""

    flat_indices: np.ndarray
    inside: np.ndarray

    def shaped(self, sizes: Ints) -> "Table":
        """The table with the outputs in the axes of an image."""
        shape = (*sizes, self.flat_indices.shape[-1])
        return Table(self.flat_indices.reshape(shape), self.inside.reshape(shape))

    def gather(self, image: Any, filling: Any) -> Any:
        """The elements of each window: axes (..., outputs, window) from images whose flattened axis is the last one."""
        elements = take_known(image, self.flat_indices, -1)
        return elements if self.inside.all() else choose(self.inside, elements, filling)

    def largest(self, window: Any) -> Any:
        """The flat indices of the largest gathered elements: the first of several, or the last NaN."""
        *outputs, width = self.flat_indices.shape
        if not 0 < width <= SMALL:
            rows = np.arange(math.prod(outputs)).reshape(outputs)
            return jnp.take(self.flat_indices.reshape(-1), rows * width + largest(window), mode="clip")
        return largest_of([(window[..., i], self.flat_indices[..., i]) for i in range(width)])[1]


@frozen
class Strided:
    """Windows at regular steps that nothing cuts off: for each place in a window, every so many elements of the image.

    Attributes:
      axes: of each axis the number of windows, their size, their step, and the dilation.
    """

    axes: Sequence[Ints]

    @classmethod
    def of(
        cls, sizes: Ints, counts: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
    ) -> "Strided | None":
        """The windows of an image, where they are such, and small."""
        axes = tuple(zip(counts, kernel, stride, dilation, strict=True))
        ends = [(count - 1) * step + (size - 1) * apart for count, size, step, apart in axes]
        is_cut = any(padding) or any(end >= n for end, n in zip(ends, sizes, strict=True))
        return None if is_cut or math.prod(kernel) > SMALL else cls(axes)

    def pooled(self, image: Any) -> tuple[Any, Any]:
        """The largest element of each window, and its flat index.

        Nothing is gathered.  Backward puts what comes where the indices say, all images in one flat array: XLA makes a
        table of places for any other.
        """
        largest, indices = self._largest(lax.stop_gradient(image))
        outer = image.shape[: image.ndim - len(self.axes)]
        count, size = math.prod(outer), math.prod(image.shape[len(outer) :])

        def maximum(image: Any, largest: Any, indices: Any) -> Any:
            return largest

        def vjp(ct: Any, out: Any, image: Any, largest: Any, indices: Any) -> tuple[Any, None, None]:
            starts = np.arange(0, count * size, size).reshape(*outer, *[1] * len(self.axes))
            at, flat = jnp.ravel(indices + starts), jnp.zeros(count * size, ct.dtype)
            return flat.at[at].add(jnp.ravel(ct), mode="promise_in_bounds").reshape(image.shape), None, None

        def jvp(tangents: Any, out: Any, image: Any, largest: Any, indices: Any) -> Any:
            return picked(tangents[0].reshape(*outer, size), indices)

        return define_rule(maximum, vjp=vjp, jvp=jvp)(image, largest, indices), indices

    def _largest(self, image: Any) -> tuple[Any, Any]:
        sizes = image.shape[image.ndim - len(self.axes) :]
        flat_indices = np.arange(math.prod(sizes)).reshape(sizes)
        along = [
            [slice(at, at + (count - 1) * step + 1, step) for at in range(0, size * apart, apart)]
            for count, size, step, apart in self.axes
        ]
        return largest_of([(image[(..., *part)], flat_indices[part]) for part in itertools.product(*along)])


def picked(image: Any, indices: Any) -> Any:
    """The elements of flattened images at indices, in the indices' shape."""
    flat = lax.reshape(indices, (*image.shape[:-1], math.prod(indices.shape[image.ndim - 1 :])))
    return lax.reshape(take_along(image, flat, image.ndim - 1), indices.shape)


def largest_of(parts: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The largest of elements in several arrays, and its index: the first of several, or the last NaN."""
    (best, first), *others = parts
    index = jnp.broadcast_to(first, best.shape)
    for element, at in others:  # only a NaN differs from itself
        better = (element > best) | (element != element)
        best, index = choose(better, element, best), choose(better, at, index)
    return best, index


def table(sizes: Ints, windows: Sequence[Windows]) -> Table:
    """The windows of an image from those of its axes."""
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    rows = [
        [sum(p * s for p, s in zip(position, steps, strict=True)) for position in itertools.product(*window)]
        for window in itertools.product(*windows)
    ]
    widest = max(map(len, rows), default=0)
    inside = np.array([[i < len(row) for i in range(widest)] for row in rows], bool).reshape(len(rows), widest)
    flat_indices = np.zeros((len(rows), widest), np.int64)
    flat_indices[inside] = np.array([p for row in rows for p in row], np.int64)
    return Table(flat_indices, inside)


def largest(window: Any) -> Any:
    """The index of the largest element in each window (the last axis): the first of several, or the last NaN."""
    index = index_of_largest(window, window.ndim - 1)
    if not jnp.issubdtype(window.dtype, np.floating):
        return index
    last = jnp.max(choose(jnp.isnan(window), np.arange(window.shape[-1]), -1), -1)
    return choose(last >= 0, last, index)


def lowest(dtype: np.dtype[Any]) -> Any:
    """A lower bound of all elements."""
    return np.array(-np.inf if jnp.issubdtype(dtype, np.floating) else np.iinfo(dtype).min, dtype)
