"""Elements picked by index tensors and masks: ``gather``, ``index_select``, ``take``, ``masked_select`` and others."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, int32, int64
from fgrad.mutable.values.evaluation import counted, dynamic
from fgrad.torch.ops.creation.copying import laid_out
from fgrad.torch.ops.creation.making import tensor_beside
from fgrad.torch.ops.elementwise.arithmetic import remainder
from fgrad.torch.ops.indexing.coordinates import (
    first_outside,
    positions_in,
    read,
    read_along,
    size_along,
    slices,
    with_axis,
    wrapped,
)
from fgrad.torch.ops.table.broadcasting import check_broadcast
from fgrad.torch.ops.table.outputs import OVER_INDICES, SELECTED, Memory, exact
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Fixed, SymInt, composite, write_outputs
from fgrad.torch.ops.views.splitting import unbind
from fgrad.torch.ops.views.views import expand, reshape, unsqueeze, wrap_dim


def check_along(function: str, input: Tensor, dim: int, index: Tensor, src: Tensor | None, what: str) -> int:
    """The axis of ``gather`` or ``scatter`` counted from the front, if the index fits.

    Arguments:
      what: PyTorch's name of the indexed tensor.
    """
    shape, sizes = input._type.shape, index._type.shape
    dim = wrap_dim(dim, len(shape))
    if not index._type.numel:
        return dim
    if index._type.dtype not in (int32, int64):
        raise RuntimeError(f"{function}(): Expected dtype int32/int64 for index")
    if src is not None and src._type.dtype is not input._type.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if len(sizes or (1,)) != len(shape or (1,)):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {what} tensor")
    too_long = [d for d, n in enumerate(sizes) if n > shape[d] and d != dim] if sizes != shape and shape else []
    if src is None:
        if too_long:
            raise RuntimeError(
                f"Size does not match at dimension {too_long[0]} expected index {list(sizes)} to be no larger than "
                f"self {list(shape)} apart from dimension {dim}"
            )
    else:
        values = src._type.shape
        # PyTorch checks the sizes one by one, and only then their number
        wrong = bool(too_long) or (
            sizes != values
            and any(n > (values[wrap_dim(d, len(values))] if values else 1) for d, n in enumerate(sizes or (1,)))
        )
        if len(values or (1,)) != len(sizes or (1,)):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        if wrong:
            raise RuntimeError(
                f"Expected index {list(sizes)} to be no larger than self {list(shape)} apart from dimension {dim} and "
                f"to be no larger size than src {list(values)}"
            )
    check_range(index, dim, size_along(shape, dim))
    return dim


def check_range(index: Tensor, dim: int, size: int) -> None:
    """Raise PyTorch's error for an index that is negative or beyond an axis."""
    bad = first_outside(index, 0, size)
    if bad is not None:
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {size}")


@overload(
    "gather", "GatherBackward0", always_saved=("self", "index"), in_float32=True
)  # the gradient is summed in single precision
def _gather(input: Array, index: Fixed, dim: int, sparse_grad: bool) -> Any:
    if not index.size:
        return lax.full(index.shape, 0, input.dtype)
    return lax.reshape(read_along(with_axis(input), with_axis(index), dim), index.shape)


@overloaded(out=OVER_INDICES)
def gather(input: Array, dim: int, index: Fixed, *, sparse_grad: bool = False) -> Choice:
    """The elements that an index names along an axis: for two axes and ``dim=0``, ``input[index[i][j]][j]``.

    >>> import fgrad.torch as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])

    Source: `torch.gather <https://docs.pytorch.org/docs/stable/generated/torch.gather.html>`_.
    """
    return _gather, input, index, check_along("gather", input, dim, index, None, "input"), sparse_grad


def _selected(input: Any, index: Any, dim: int) -> Any:
    shape = tuple([index.size if d == dim else n for d, n in enumerate(input.shape)])
    return lax.reshape(read(with_axis(input), slices(with_axis(index), dim)), shape)


def check_within(index: Tensor, size: int) -> None:
    """Raise PyTorch's error for an index beyond an axis in functions that work slice by slice."""
    if first_outside(index, 0, size) is not None:
        raise IndexError("index out of range in self")


def adds_in_single(shape: Ints, dim: int, index: Tensor) -> bool:
    """Whether PyTorch's ``index_add`` calls ``scatter_add``, which sums half precision in single.

    Source: PyTorch: aten/src/ATen/native/TensorAdvancedIndexing.cpp, index_add_cpu_
    """
    return len(shape) > 1 and dim in (0, len(shape) - 1) and index._type.dtype is int64


@overload("index_select", "IndexSelectBackward0", always_saved=("index",))
def _index_select(input: Array, index: Fixed, dim: int) -> Any:
    return _selected(input, index, dim)


@overload("index_select", "IndexSelectBackward0", always_saved=("index",), in_float32=True)
def _index_select_single(input: Array, index: Fixed, dim: int) -> Any:
    return _selected(input, index, dim)


@overloaded(out=SELECTED)
def index_select(input: Array, dim: int, index: Fixed) -> Choice:
    """The slices along an axis that an index names.

    >>> import fgrad.torch as torch
    >>> torch.index_select(torch.tensor([[1, 2, 3], [4, 5, 6]]), 1, torch.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])

    Source: `torch.index_select <https://docs.pytorch.org/docs/stable/generated/torch.index_select.html>`_.
    """
    shape = input._type.shape
    dim = wrap_dim(dim, len(shape))
    if len(index._type.shape) > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index._type.dtype not in (int32, int64):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not shape and index._type.numel != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index._type.numel} value(s)")
    check_within(index, size_along(shape, dim))
    # the gradient is summed by ``index_add``
    return _index_select_single if adds_in_single(shape, dim, index) else _index_select, input, index, dim


def check_flat(function: str, input: Tensor, index: Tensor) -> None:
    """Raise PyTorch's error for an index that does not fit the flattened tensor."""
    if index._type.dtype is not int64:
        raise RuntimeError(f"{function}(): Expected a long tensor for index, but got {index._type.dtype.scalar_name}")
    numel = input._type.numel
    if not numel and index._type.numel:
        raise IndexError(
            f"{function}(): tried to {function.rstrip('_')} "
            f"{'from' if function == 'take' else 'elements into'} an empty tensor"
        )
    bad = first_outside(index, -numel, numel)
    if bad is not None:
        raise IndexError(f"out of range: tried to access index {bad} on a tensor of {numel} elements.")


@overload("take", "TakeBackward0", always_saved=("self", "index"))
def _take(input: Array, index: Fixed) -> Any:
    return read(lax.reshape(input, (input.size,)), (wrapped(index, input.size),))


@overloaded(
    out=exact(
        "take(): self and out expected to have the same dtype, but got self.dtype = {want} and out.dtype = {got}",
        memory=Memory.DISJOINT,
    )
)
def take(input: Array, index: Fixed) -> Choice:
    """The elements of the flattened tensor that an index names.

    >>> import fgrad.torch as torch
    >>> torch.take(torch.tensor([[4, 3, 5], [6, 7, 8]]), torch.tensor([0, 2, -1]))
    tensor([4, 5, 8])

    Source: `torch.take <https://docs.pytorch.org/docs/stable/generated/torch.take.html>`_.
    """
    check_flat("take", input, index)
    return _take, input, index


@composite(out=OVER_INDICES)
def take_along_dim(input: Any, indices: Any, dim: int | None = None, *, out: Any = None) -> Tensor:
    """``gather`` of operands broadcast to each other except along ``dim``; without ``dim``, of the flattened operands.

    Source: `torch.take_along_dim <https://docs.pytorch.org/docs/stable/generated/torch.take_along_dim.html>`_.
    """
    rank, index_rank = len(input._type.shape), len(indices._type.shape)
    if dim is not None and rank != index_rank:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{rank} dimensions for input, and {index_rank} dimensions for indices"
        )
    if indices._type.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices._type.dtype.scalar_name}"
        )
    if dim is None:
        return gather(reshape(input, -1), 0, reshape(indices, -1), out=out)
    dim = wrap_dim(dim, rank)
    if not rank:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    check_broadcast(*[np.empty((*x._type.shape[:dim], 0, *x._type.shape[dim + 1 :])) for x in (input, indices)])
    pairs = zip(input._type.shape, indices._type.shape, strict=True)
    sizes = [max(n, m) if 0 not in (n, m) else 0 for n, m in pairs]
    source, index = (
        expand(x, tuple([x._type.shape[d] if d == dim else n for d, n in enumerate(sizes)])) for x in (input, indices)
    )
    # an index beyond the axis wraps around
    return gather(source, dim, remainder(index, max(input._type.shape[dim], 1)), out=out)


# -- masks -----------------------------------------------------------------------------------------------------------


@overload("masked_select", "MaskedSelectBackward0", always_saved=("self", "mask"))
def _masked_select(input: Array, mask: Fixed, count: int) -> Any:
    input, mask = jnp.broadcast_arrays(input, mask)
    return read(lax.reshape(input, (input.size,)), (positions_in(mask, count),))


@overloaded(out=SELECTED)
def masked_select(input: Array, mask: Fixed) -> Choice:
    """The elements at which a mask is true, as a vector.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., -2., 3.])
    >>> torch.masked_select(x, torch.tensor([True, False, True]))
    tensor([1., 3.])

    Source: `torch.masked_select <https://docs.pytorch.org/docs/stable/generated/torch.masked_select.html>`_.
    """
    if mask._type.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    check_broadcast(mask._type, input._type)
    shape = np.broadcast_shapes(mask._type.shape, input._type.shape)
    count = int(np.broadcast_to(counted(mask._value(), _MASK_OF_EACH), shape).sum())
    return _masked_select, input, mask, count


_MASK_OF_EACH = (
    "Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch "
    "this would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues "
    "if you need this feature."
)


@composite(
    out=exact(
        "nonzero: Expected out tensor to have scalar type {want} but got scalar type{got}", memory=Memory.DISJOINT
    )
)
def nonzero(input: Any, *, out: Any = None, as_tuple: bool = False) -> Any:
    """The coordinates of the elements that are not zero, a row for each; with ``as_tuple``, a tensor for each axis.

    >>> import fgrad.torch as torch
    >>> torch.nonzero(torch.tensor([[1, 0], [0, 2]]))
    tensor([[0, 0],
            [1, 1]])

    Source: `torch.nonzero <https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html>`_.
    """
    if as_tuple:
        return unbind(nonzero(unsqueeze(input, 0) if not input._type.shape else input), 1)
    coordinates = np.argwhere(counted(input._value(), dynamic("nonzero")))
    tensor = tensor_beside(input, coordinates, int64)
    # PyTorch writes one axis after the other
    laid_out(tensor, (1, len(coordinates)))
    return tensor if out is None else write_outputs("nonzero", None, (input,), tensor, out)


@composite()
def argwhere(input: Any) -> Tensor:
    """The coordinates of the elements that are not zero, a row for each.

    Source: `torch.argwhere <https://docs.pytorch.org/docs/stable/generated/torch.argwhere.html>`_.
    """
    return nonzero(input)


@overload("nonzero_static", None)
def _nonzero_static(input: Fixed, size: int, fill_value: int) -> Any:
    if not input.ndim:
        return jnp.zeros((size, 0), np.int64)
    if not input.size:
        return jnp.full((size, input.ndim), fill_value, np.int64)
    return jnp.stack(jnp.nonzero(input, size=size, fill_value=fill_value), -1).astype(np.int64)


@composite()
def nonzero_static(input: Array, *, size: SymInt, fill_value: int = -1) -> Tensor:
    """The coordinates of the first ``size`` elements that are not zero, a row for each.

    Arguments:
      input: the tensor.
      size: the number of rows, so that the shape does not depend on the elements.
      fill_value: the value of the remaining rows.

    Raises:
      RuntimeError: ``size`` is negative.

    >>> import fgrad.torch as torch
    >>> torch.nonzero_static(torch.tensor([[1, 0], [0, 2]]), size=3)
    tensor([[ 0,  0],
            [ 1,  1],
            [-1, -1]])

    Source: `torch.nonzero_static <https://docs.pytorch.org/docs/2.13/generated/torch.nonzero_static.html>`_.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return _nonzero_static(input, size, fill_value)
