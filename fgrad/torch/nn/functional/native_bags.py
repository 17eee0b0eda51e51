"""``torch.embedding_bag``: the results of ``torch.nn.functional.embedding_bag`` with PyTorch's auxiliary outputs."""

from typing import Any

from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types.dtypes import float64, int64
from fgrad.torch import ops
from fgrad.torch.nn.functional.embedding import MAX, SUM, embedding_bag as bags_of
from fgrad.torch.ops.table.table import composite

_NAMES = ("sum", "mean", "max")


@composite(method=False)
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The sum (``mode`` 0), mean (1) or largest (2) of bags of rows; which bag each row is in, the sizes of the bags
    (zeros for sums), and which rows are the largest (the sizes again for sums and means).

    Source: `torch.nn.functional.embedding_bag
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.embedding_bag.html>`_.
    """
    output = bags_of(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, _NAMES[mode], sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )  # fmt: skip
    recorded = modes.grad and is_tracked(weight)
    with no_grad():
        starts = offsets[:-1] if include_last_offset else offsets
        positions = ops.arange(indices.size(0), dtype=offsets.dtype, device=offsets.device)
        bag = ops.searchsorted(starts, positions, right=True) - 1
        if mode == SUM:
            # PyTorch's fast kernels for sums skip these
            fast = weight.dtype is not float64 and padding_idx is None
            sizes = offsets.new_zeros((starts if recorded else offsets).size(0), dtype=int64)
            return output, bag.new_empty(0) if fast else bag, sizes, sizes.clone()
        counted = ops.ones_like(indices) if padding_idx is None else (indices != padding_idx).to(indices.dtype)
        sizes = ops.zeros_like(starts).index_add(0, bag, counted.to(starts.dtype))
        if mode != MAX:
            return output, bag, sizes, sizes.clone()
        return output, bag, sizes, _largest(weight, indices, bag, counted, output)


def _largest(weight: Any, indices: Any, bag: Any, counted: Any, output: Any) -> Tensor:
    """The row that each element of each bag comes from, the first of several; zero for empty bags."""
    count = indices.size(0)
    if not count:
        return ops.zeros_like(output, dtype=indices.dtype)
    rows = weight[indices]
    fits = (rows == output[bag]) & (counted != 0).unsqueeze(1)
    positions = ops.arange(count, device=rows.device).unsqueeze(1).expand_as(rows).masked_fill(~fits, count)
    first = output.new_full(tuple(output.shape), count, dtype=int64)
    first = first.scatter_reduce(0, bag.unsqueeze(1).expand_as(rows), positions, "amin")
    row_indices = indices[first.clamp(max=count - 1)]
    return row_indices.masked_fill(first == count, 0)
