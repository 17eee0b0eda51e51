"""Where the windows of a gather or scatter lie in its operand, as places in the flat array."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.graph.op import Op

_UNSIGNED = {np.dtype(f"int{bits}"): np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}


def all_below(integers: np.ndarray, end: int) -> bool:
    """Whether integers are from 0 to below ``end``: as unsigned numbers, negative ones are large."""
    if not integers.size:
        return True
    unsigned = _UNSIGNED.get(integers.dtype)
    return bool(np.maximum.reduce(integers if unsigned is None else integers.view(unsigned), None) < end)


class Places:
    """The places of the elements that the indices of a gather or scatter name, in the shape of what is read or written.

    What does not depend on the indices is worked out once: a place is the window's first one, and where the element
    lies in the window.
    """

    __slots__ = ("columns", "starts", "within")

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
        """Of an operand's ``shape`` windows of these ``sizes``; its ``indexed`` axes are those that an index names.

        ``batching`` and ``windows`` say for an axis of the operand along which axis of the result, of ``rank`` axes,
        batches and windows extend; the result's other axes, in order, have the sizes ``batch``.
        """
        strides = [int(np.prod(shape[axis + 1 :], dtype=np.intp)) for axis in range(len(shape))]
        #: for each indexed axis, where the last window starts, and how far apart in the flat array elements lie
        self.columns: list[tuple[int, int]] = [(shape[axis] - sizes[axis], strides[axis]) for axis in indexed]
        rest = iter(batch)
        #: the shape of the windows' first places, for them to be broadcast
        self.starts: tuple[int, ...] = tuple([1 if axis in windows.values() else next(rest) for axis in range(rank)])
        self.within: Any = np.zeros((1,) * rank, np.intp)
        for axis, along in (batching | windows).items():
            n = sizes[axis] if axis in windows else shape[axis]
            aligned = [n if i == along else 1 for i in range(rank)]
            self.within = self.within + (np.arange(n) * strides[axis]).reshape(aligned)

    def of(self, indices: Any) -> tuple[Any, Any]:
        """The positions, with windows clamped to the array; and which windows lay inside already, None if all did."""
        inside: Any = None
        first: Any = 0
        # column by column: NumPy is slow along axes as short as those of the columns
        for k, (last, step) in enumerate(self.columns):
            column = indices[..., k]
            if not all_below(column, last + 1):
                moved = np.minimum(np.maximum(column, 0), last)
                same = moved == column
                inside = same if inside is None else inside & same
                column = moved
            column = column.astype(np.intp, copy=False)
            first = first + (column if step == 1 else column * step)
        return first.reshape(self.starts) + self.within, None if inside is None else inside.reshape(self.starts)


def gathered(op: Op) -> Places | None:
    """The places that a gather reads; None if it reads nothing, or the same whatever the indices are."""
    numbers, sizes = op.params["dimension_numbers"], op.params["slice_sizes"]
    operand, indices = op.in_types
    batch = [axis for axis in range(op.out_types[0].ndim) if axis not in numbers.offset_dims]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return _places(
        operand.shape,
        sizes,
        numbers.start_index_map,
        (numbers.operand_batching_dims, numbers.start_indices_batching_dims),
        [axis for axis in range(operand.ndim) if axis not in dropped],
        numbers.offset_dims,
        batch,
        indices.shape,
    )


def scattered(op: Op) -> Places | None:
    """The places that a scatter writes; None as of ``gathered``."""
    numbers = op.params["dimension_numbers"]
    operand, indices, updates = op.in_types
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    kept = [axis for axis in range(operand.ndim) if axis not in dropped]
    windows = numbers.update_window_dims
    sizes = [1] * operand.ndim
    for axis, along in zip(kept, windows, strict=True):
        sizes[axis] = updates.shape[along]
    return _places(
        operand.shape,
        sizes,
        numbers.scatter_dims_to_operand_dims,
        (numbers.operand_batching_dims, numbers.scatter_indices_batching_dims),
        kept,
        windows,
        [axis for axis in range(updates.ndim) if axis not in windows],
        indices.shape,
    )


def _places(
    shape: Sequence[int],
    sizes: Sequence[int],
    indexed: Sequence[int],
    batching: tuple[Sequence[int], Sequence[int]],
    kept: Sequence[int],
    windows: Sequence[int],
    batch: Sequence[int],
    indices: Sequence[int],
) -> Places | None:
    if not indexed or 0 in (*shape, *sizes, *indices):
        return None
    return Places(
        shape,
        sizes,
        indexed,
        {axis: batch[by] for axis, by in zip(*batching, strict=True)},
        dict(zip(kept, windows, strict=True)),
        len(batch) + len(windows),
        indices[:-1],
    )
