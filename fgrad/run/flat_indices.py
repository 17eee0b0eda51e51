"""The windows of a gather or scatter as positions in the flattened operand.

NOTE [Indices checked once]
Indices are compared with the size of an axis for PyTorch's errors, again by the gather, and again by the scatter of its
derivative.  An array that cannot be written stays below what it was found to be below, and so does each view of it. So
the last such array is remembered.  Once its elements are replaced in place (NOTE [Elements in memory]) it can be
written, and counts no more.
"""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from fgrad.graph.op import Op

_UNSIGNED = {np.dtype(f"int{bits}"): np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}
#: the largest integer of each dtype, which may be smaller than an axis is long
_LARGEST = {dtype: int(np.iinfo(dtype).max) for pair in _UNSIGNED.items() for dtype in pair}


#: the last array that was below an end, and that end: see NOTE [Indices checked once]
_last: tuple[Callable[[], Any], int] = lambda: None, 0


def all_below(integers: np.ndarray, end: int) -> bool:
    """Whether all integers are in ``range(end)``."""
    global _last
    base = integers.base
    whole = integers if base is None else base
    known, below = _last
    if known() is whole and below <= end and whole.dtype is integers.dtype and not whole.flags.writeable:
        return True
    if not integers.size:
        return True
    # as unsigned numbers, negative ones are larger than all others
    unsigned = _UNSIGNED.get(integers.dtype)
    if unsigned is not None:
        end = min(end, _LARGEST[integers.dtype] + 1)
    if not np.maximum.reduce(integers if unsigned is None else integers.view(unsigned), None) < end:
        return False
    if integers.__class__ is np.ndarray and not integers.flags.writeable and base is None:
        _last = ref(integers), end
    return True


class Windows:
    """The windows that a gather reads or a scatter writes.

    The position of an element is that of its window, which depends on the indices, plus its offset in the window, which
    does not and is computed in advance.
    """

    __slots__ = ("columns", "start_shape", "offsets")

    def __init__(
        self,
        shape: Sequence[int],
        sizes: Sequence[int],
        indexed: Sequence[int],
        batching: dict[int, int],
        windows: dict[int, int],
        rank: int,
        batch: Sequence[int],
    ):
        """Windows of these ``sizes`` in an operand of this ``shape``; an index has an entry for each ``indexed`` axis.

        ``batching`` and ``windows`` map axes of the operand to axes of the result, which has ``rank`` axes; the others,
        in order, have the sizes ``batch``.
        """
        strides = [int(np.prod(shape[axis + 1 :], dtype=np.intp)) for axis in range(len(shape))]
        #: for each indexed axis, the last possible start of a window, and the stride in the flat array
        self.columns: list[tuple[int, int]] = [(shape[axis] - sizes[axis], strides[axis]) for axis in indexed]
        rest = iter(batch)
        #: the shape of the windows' starts, which broadcasts with ``offsets``
        self.start_shape: tuple[int, ...] = tuple(
            [1 if axis in windows.values() else next(rest) for axis in range(rank)]
        )
        self.offsets: Any = np.zeros((1,) * rank, np.intp)
        for axis, along in (batching | windows).items():
            n = sizes[axis] if axis in windows else shape[axis]
            aligned = [n if i == along else 1 for i in range(rank)]
            self.offsets = self.offsets + (np.arange(n) * strides[axis]).reshape(aligned)

    def positions(self, indices: Any) -> tuple[Any, Any]:
        """The positions, with windows clamped to the array, and which windows lay inside, None if all did."""
        inside: Any = None
        first: Any = None
        # column by column, since NumPy is slow along short axes
        for k, (last, step) in enumerate(self.columns):
            column = indices[..., k]
            if not all_below(column, last + 1):
                clamped = np.minimum(np.maximum(column, 0), min(last, _LARGEST[column.dtype]))
                same = clamped == column
                inside = same if inside is None else inside & same
                column = clamped
            column = column.astype(np.intp, copy=False)
            if step != 1:
                column = column * step
            first = column if first is None else first + column
        inside = None if inside is None else inside.reshape(self.start_shape)
        return first.reshape(self.start_shape) + self.offsets, inside


def gathered_axis(op: Op) -> int | None:
    """The axis of which a gather reads whole slices, as ``take`` does; None if it reads anything else."""
    numbers, sizes = op.params["dimension_numbers"], op.params["slice_sizes"]
    shape, rank = op.in_types[0].shape, op.out_types[0].ndim
    if len(numbers.start_index_map) != 1 or numbers.operand_batching_dims or op.in_types[1].dtype == np.uint64:
        return None  # ``take`` reads the upper half of these as negative numbers
    (axis,) = numbers.start_index_map
    whole = sizes == (*shape[:axis], 1, *shape[axis + 1 :]) and numbers.collapsed_slice_dims == (axis,)
    places = (*range(axis), *range(rank - len(shape) + axis + 1, rank))
    return axis if whole and numbers.offset_dims == places else None


def gather_windows(op: Op) -> Windows | None:
    """The windows that a gather reads; None if they are empty or do not depend on the indices."""
    numbers, sizes = op.params["dimension_numbers"], op.params["slice_sizes"]
    operand, indices = op.in_types
    batch = [axis for axis in range(op.out_types[0].ndim) if axis not in numbers.offset_dims]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return _windows(
        operand.shape,
        sizes,
        numbers.start_index_map,
        (numbers.operand_batching_dims, numbers.start_indices_batching_dims),
        [axis for axis in range(operand.ndim) if axis not in dropped],
        numbers.offset_dims,
        batch,
        indices.shape,
    )


def scatter_windows(op: Op) -> Windows | None:
    """The windows that a scatter writes; None if they are empty or do not depend on the indices."""
    numbers = op.params["dimension_numbers"]
    operand, indices, updates = op.in_types
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window_axes = [axis for axis in range(operand.ndim) if axis not in dropped]
    windows = numbers.update_window_dims
    sizes = [1] * operand.ndim
    for axis, along in zip(window_axes, windows, strict=True):
        sizes[axis] = updates.shape[along]
    return _windows(
        operand.shape,
        sizes,
        numbers.scatter_dims_to_operand_dims,
        (numbers.operand_batching_dims, numbers.scatter_indices_batching_dims),
        window_axes,
        windows,
        [axis for axis in range(updates.ndim) if axis not in windows],
        indices.shape,
    )


def _windows(
    shape: Sequence[int],
    sizes: Sequence[int],
    indexed: Sequence[int],
    batching: tuple[Sequence[int], Sequence[int]],
    window_axes: Sequence[int],
    windows: Sequence[int],
    batch: Sequence[int],
    indices: Sequence[int],
) -> Windows | None:
    if not indexed or 0 in (*shape, *sizes, *indices):
        return None
    return Windows(
        shape,
        sizes,
        indexed,
        {axis: batch[by] for axis, by in zip(*batching, strict=True)},
        dict(zip(window_axes, windows, strict=True)),
        len(batch) + len(windows),
        indices[:-1],
    )
