"""The strides of elementwise results: those of the operands, when they are dense and all lie alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve

from fgrad.torch import dtypes
from fgrad.torch.core.geometry import Geometry, Ints, contiguous_strides, is_dense
from fgrad.torch.core.tensor import Tensor

_NUMBER = Geometry((), (), 0, dtypes.float32)


def elementwise(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """Strides of a result of elementwise operands, None for row-major.

    The axes of the result lie in memory in the order in which the operands' do: an operand's strides decide in turn,
    axes of stride 0 decide nothing (PyTorch: aten/src/ATen/TensorIterator.cpp, reorder_dimensions).
    """
    if not any(map(_lies_apart, operands)):
        return None
    # a number is a tensor without axes
    return ordered([x._geometry_of() if isinstance(x, Tensor) else _NUMBER for x in operands if x is not None], shape)


def elementwise_of_tensors(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``elementwise`` where PyTorch's kernel has the numbers built in."""
    return elementwise([x for x in operands if isinstance(x, Tensor)], shape)


def elementwise_of_two(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """``elementwise`` of the first two operands; the third is a factor."""
    return elementwise(operands[:2], shape)


#: what operations that work element by element say of their strides
ELEMENTWISE = (elementwise, elementwise_of_tensors, elementwise_of_two)


def _lies_apart(x: Any) -> bool:
    """Whether an operand may not be row-major."""
    return isinstance(x, Tensor) and (
        x._geometry is not None or x._storage.strides is not None or x._storage.home is not None
    )


def ordered(geometries: Sequence[Geometry], shape: Ints) -> Ints | None:
    """``elementwise`` of operands of which these are the geometries."""
    rank = len(shape)
    full = [g for g in geometries if g.sizes == shape]
    if len(full) == len(geometries) and all(g.contiguous for g in full):
        return None
    if len(full) == len(geometries) and all(map(_in_channels_last, full)):
        return laid_out_in((0, 2, 3, 1), shape)
    if len(full) == len(geometries) and all(g.strides == full[0].strides for g in full):
        strides = full[0].strides
        if is_dense(shape, strides):
            return None if strides == contiguous_strides(shape) else strides
    steps = [
        [0] * (rank - len(g.sizes))
        + [
            0 if n == 1 and shape[rank - len(g.sizes) + i] != 1 else s
            for i, (n, s) in enumerate(zip(g.sizes, g.strides, strict=True))
        ]
        for g in geometries
    ]
    order = list(reversed(range(rank)))

    def compare(one: int, other: int) -> int:
        for strides in steps:
            a, b = strides[one], strides[other]
            if a == 0 or b == 0:
                continue
            if a != b:
                return -1 if a < b else 1
            if shape[one] > shape[other]:
                return 1
        return 0

    for i in range(1, rank):
        at = i
        for j in range(i - 1, -1, -1):
            found = compare(order[j], order[at])
            if found > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif found < 0:
                break
    strides = [0] * rank
    step = 1
    for axis in order:
        strides[axis] = step
        step *= max(shape[axis], 1)
    made = tuple(strides)
    return None if made == contiguous_strides(shape) else made


def _in_channels_last(g: Geometry) -> bool:
    """Whether four axes lie in memory as ``channels_last`` says; those of one element lie anywhere.

    Source: PyTorch: c10/core/Contiguity.h, _compute_channels_last_contiguous_2d
    """
    step = 1
    for axis in (1, 3, 2, 0) if len(g.sizes) == 4 else ():
        if g.sizes[axis] != 1 and g.strides[axis] != step:
            return False
        step *= g.sizes[axis]
    return len(g.sizes) == 4


def spatial(operands: Sequence[Any], shape: Ints) -> Ints | None:
    """Strides of a result of images: ``channels_last`` if an operand lies in memory so, else row-major."""
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
    """The strides of a dense array whose axes lie in memory in this order, the last one fastest."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def of_index(g: Geometry, spec: Sequence[int | str | None], indices: Sequence[Tensor]) -> Ints | None:
    """The strides of what index tensors pick out: of an elementwise result of the indices and the tensor.

    Each index is an operand, and so is the tensor, with strides of 0 for what the indices stand for
    (PyTorch: aten/src/ATen/native/TensorAdvancedIndexing.cpp, ``make_info``).  ``spec`` says of each item of the index
    how many elements a mask has, that there is an index tensor, or that there is none.
    """
    it = iter(indices)
    columns: list[Geometry | None] = []
    for each in spec:
        if isinstance(each, int):  # a mask stands for columns of the places of its elements
            rank = len(next(it)._type.shape)
            columns += [Geometry((each,), (rank,), 0, dtypes.int64)] * rank
        else:
            columns.append(None if each is None else next(it)._geometry_of())
    axes = [i for i, column in enumerate(columns) if column is not None]
    rest = [i for i in range(len(g.sizes)) if i not in axes]
    before = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    given = [column for column in columns if column is not None]
    found = np.broadcast_shapes(*[column.sizes for column in given])
    shape = (*[g.sizes[i] for i in rest[:before]], *found, *[g.sizes[i] for i in rest[before:]])
    strides = (*[g.strides[i] for i in rest[:before]], *[0] * len(found), *[g.strides[i] for i in rest[before:]])
    after = (1,) * (len(rest) - before)
    given = [evolve(c, sizes=(*c.sizes, *after), strides=(*c.strides, *after)) for c in given]
    return ordered([evolve(g, sizes=shape, strides=strides), *given], shape)
