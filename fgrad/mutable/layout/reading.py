"""Readings: all elements of an array in another order, as a graph that can be part of any program.

A view such as ``t()`` selects every element of its storage once.  A program that begins with the view's reading takes
the storage's array as it is: XLA reads a transposed factor of a product in place, for one.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.layout.geometry import Geometry, Ints, Layout, cached, is_dense, memory_order
from fgrad.seam import Builder, Graph, ShapedArray, intern, primitive, with_x64


@frozen(eq=False, slots=False)
class Reading:
    """Reads all elements of an array in another order."""

    layout: Layout
    result: Layout

    @cached_property
    def graph(self) -> Graph:
        """From the array to the elements in the order of the view."""
        return with_x64(self._graph)

    def _graph(self) -> Graph:
        layout, result = self.layout, self.result
        builder = Builder([ShapedArray(layout.sizes, layout.dtype.numpy)])
        value = _transposed(builder, 0, memory_order(layout.sizes, layout.strides))
        order = memory_order(result.sizes, result.strides)
        value = _reshaped(builder, value, tuple([result.sizes[i] for i in order]))
        return builder.finish([_transposed(builder, value, tuple(np.argsort(order).tolist()))])

    def of(self, array: np.ndarray) -> np.ndarray:
        """The elements in the order of the view, without a program."""
        layout, result = self.layout, self.result
        memory = array.transpose(memory_order(layout.sizes, layout.strides))
        order = memory_order(result.sizes, result.strides)
        return memory.reshape([result.sizes[i] for i in order]).transpose(np.argsort(order))


def _transposed(builder: Builder, value: int, order: Ints) -> int:
    if order == tuple(range(len(order))):
        return value
    return _emitted(builder, "transpose", {"permutation": order}, value)


def _reshaped(builder: Builder, value: int, sizes: Ints) -> int:
    if sizes == builder.types[value].shape:
        return value
    return _emitted(builder, "reshape", {"new_sizes": sizes, "dimensions": None, "sharding": None}, value)


def _emitted(builder: Builder, name: str, params: dict[str, Any], value: int) -> int:
    return builder.emit(intern(primitive(name), params, [builder.types[value]]), (value,))


@cached(1 << 12)
def reading(layout: Layout, geometry: Geometry) -> Reading | None:
    """The reading of a geometry that selects every element once; None for any other, which needs a lens."""
    sizes, strides = geometry.sizes, geometry.strides
    if geometry.conj or geometry.neg or geometry.dtype is not layout.dtype:
        return None
    if math.prod(sizes) != math.prod(layout.sizes) or not is_dense(sizes, strides) or geometry.offset:
        return None
    return Reading(layout, Layout(sizes, strides, layout.dtype))
