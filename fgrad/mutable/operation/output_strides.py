"""The strides of elementwise results: those of the operands, if they are dense and all have the same layout."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides, is_contiguous, is_dense
from fgrad.mutable.tensor.tensor import Tensor, has_own_strides

#: the layout of an operand: its sizes and strides
Strided = tuple[Ints, Ints]
#: a number counts as a 0-d tensor
_NUMBER: Strided = ((), ())


def elementwise(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of an elementwise result, None for row-major.

    The axes of the result have the operands' memory order: the operands decide in turn, by their strides; axes of
    stride 0 decide nothing (PyTorch: aten/src/ATen/TensorIterator.cpp, reorder_dimensions).
    """
    if not any(isinstance(x, Tensor) and has_own_strides(x) for x in operands):
        return None
    return ordered(tuple([_layout(x) if isinstance(x, Tensor) else _NUMBER for x in operands if x is not None]), shape)


def elementwise_of_tensors(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``elementwise`` of the tensors alone, where PyTorch's kernel takes the numbers as parameters."""
    return elementwise([x for x in operands if isinstance(x, Tensor)], shape)


def elementwise_of_two(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``elementwise`` of the first two operands; the third is a factor."""
    return elementwise(operands[:2], shape)


#: the stride rules of elementwise operations
ELEMENTWISE = (elementwise, elementwise_of_tensors, elementwise_of_two)


def _layout(x: Tensor) -> Strided:
    g = x._geometry or x._storage.home
    if g is not None:
        return g.sizes, g.strides
    sizes, strides = x._type.shape, x._storage.strides
    return sizes, contiguous_strides(sizes) if strides is None else strides


@lru_cache(1 << 14)
def ordered(layouts: tuple[Strided, ...], shape: Ints) -> Ints | None:
    """``elementwise`` of operands with these layouts."""
    strides = _dense_like(layouts, shape)
    return None if strides == contiguous_strides(shape) else strides


def _dense_like(layouts: tuple[Strided, ...], shape: Ints) -> Ints:
    if all(sizes == shape for sizes, _ in layouts):
        if all(is_contiguous(*layout) for layout in layouts):
            return contiguous_strides(shape)
        if all(_in_channels_last(*layout) for layout in layouts):
            return laid_out_in((0, 2, 3, 1), shape)
        first = layouts[0][1]
        if all(each == first for _, each in layouts) and is_dense(shape, first):
            return first
    order = _fastest_first([_steps(*layout, shape) for layout in layouts], shape)
    if order == [*reversed(range(len(shape)))]:
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _steps(sizes: Ints, strides: Ints, shape: Ints) -> list[int]:
    """The strides of an operand along the axes of the result, 0 where it is repeated."""
    added = len(shape) - len(sizes)
    own_strides = [0 if n == 1 != m else s for n, s, m in zip(sizes, strides, shape[added:], strict=True)]
    return [0] * added + own_strides


def _fastest_first(steps: Sequence[Sequence[int]], shape: Ints) -> list[int]:
    """The axes sorted by the operands' strides; an axis moves past those that compare as undecided."""
    order = [*reversed(range(len(shape)))]
    for i in range(1, len(shape)):
        at = i
        for j in range(i - 1, -1, -1):
            comparison = _compare(steps, shape, order[j], order[at])
            if comparison > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif comparison < 0:
                break
    return order


def _compare(steps: Sequence[Sequence[int]], shape: Ints, one: int, other: int) -> int:
    """Whether an axis is faster (-1) or slower (1) than another; 0 if the operands do not decide."""
    for strides in steps:
        a, b = strides[one], strides[other]
        if a and b and a != b:
            return -1 if a < b else 1
        if a and b and shape[one] > shape[other]:
            return 1
    return 0


def _in_channels_last(sizes: Ints, strides: Ints) -> bool:
    """Whether four axes are in ``channels_last`` order; axes of size 1 do not matter.

    Source: PyTorch: c10/core/Contiguity.h, _compute_channels_last_contiguous_2d
    """
    step = 1
    for axis in (1, 3, 2, 0) if len(sizes) == 4 else ():
        if sizes[axis] != 1 and strides[axis] != step:
            return False
        step *= sizes[axis]
    return len(sizes) == 4


def spatial(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """The strides of an image operation's result: ``channels_last`` if an operand has it, else row-major."""
    if len(shape) not in (4, 5):
        return None
    for x in operands:
        if isinstance(x, Tensor) and (
            x._geometry is not None or x._storage.strides is not None or x._storage.home is not None
        ):
            g = x._geometry_of()
            if len(g.sizes) == len(shape) and is_channels_last(g):
                order = (0, *range(2, len(shape)), 1)
                return laid_out_in(order, shape)
    return None


def spatial_in_two(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``spatial`` for images; PyTorch's kernel for volumes gives row-major results."""
    return spatial(operands, shape) if len(shape) == 4 else None


SPATIAL = (spatial, spatial_in_two)


def is_channels_last(g: Geometry) -> bool:
    """Whether the second axis is the fastest, as PyTorch judges it (c10/core/MemoryFormat.h)."""
    least = 0
    if g.strides[1] == 0:
        return False
    for axis in (1, *range(len(g.sizes) - 1, 1, -1), 0):
        if g.sizes[axis] == 0 or g.strides[axis] < least or (axis == 0 and least == g.strides[1]):
            return False
        least = g.strides[axis] * max(g.sizes[axis], 1)
    return True


def laid_out_in(order: Sequence[int], shape: Ints) -> Ints:
    """The strides of a dense array with its axes in this memory order, the last one fastest."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def of_index(g: Geometry, spec: Sequence[int | str | None], indices: Sequence[Tensor]) -> Ints | None:
    """The strides of an indexing result: those of an elementwise result of the indices and the tensor.

    Each index is an operand, and so is the tensor, with stride 0 along the indexed axes
    (PyTorch: aten/src/ATen/native/TensorAdvancedIndexing.cpp, ``make_info``).  ``spec`` has for each item of the index
    the number of a mask's elements, or whether there is an index tensor.
    """
    it = iter(indices)
    columns: list[Strided | None] = []
    for each in spec:
        if isinstance(each, int):  # a mask stands for one index tensor per axis, as from ``nonzero``
            rank = len(next(it)._type.shape)
            columns += [((each,), (rank,))] * rank
        else:
            columns.append(None if each is None else _layout(next(it)))
    return _of_columns((g.sizes, g.strides), tuple(columns))


@lru_cache(1 << 14)
def _of_columns(layout: Strided, columns: tuple[Strided | None, ...]) -> Ints | None:
    """``of_index`` of a tensor with this layout, and of indices, one for each indexed axis."""
    axes = [i for i, column in enumerate(columns) if column is not None]
    rest = [i for i in range(len(layout[0])) if i not in axes]
    before = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    matrices = [column for column in columns if column is not None]
    batch = np.broadcast_shapes(*[sizes for sizes, _ in matrices])
    shape = (*[layout[0][i] for i in rest[:before]], *batch, *[layout[0][i] for i in rest[before:]])
    strides = (*[layout[1][i] for i in rest[:before]], *[0] * len(batch), *[layout[1][i] for i in rest[before:]])
    after = (1,) * (len(rest) - before)
    return ordered(((shape, strides), *[((*sizes, *after), (*each, *after)) for sizes, each in matrices]), shape)
