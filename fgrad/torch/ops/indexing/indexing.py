"""Advanced indexing: ``x[indices]`` with index tensors and masks, and ``index_put``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.capture import expect_within
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.output_strides import of_index
from fgrad.mutable.operation.overlap import check_apart, check_filled, deprecated
from fgrad.mutable.operation.traits import Gradients, Writing
from fgrad.mutable.tensor.tensor import Tensor, find_nodes
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import counted, elements
from fgrad.mutable.write.inplace import apply_inplace, check_written
from fgrad.run.flat_indices import all_below
from fgrad.torch.ops.creation.copying import laid_out
from fgrad.torch.ops.indexing.coordinates import Coordinates, added, place_of, positions_in, read, wrapped, written
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.table import composite

#: a tensor has fewer axes than this
_MAX_AXES = 64
_MASK = (
    "We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
    "boolean mask."
)
_BYTE_INDEX = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."


# -- values ----------------------------------------------------------------------------------------------------------


#: for each item of an index: None for a full slice, "index" for an index tensor, "position" for one without negative
#: numbers; for a mask the number of its true elements, or "mask" if a single value is written to all of them
Spec = tuple[int | str | None, ...]


def _numpy_index(array: Any, spec: Spec, indices: Sequence[Any]) -> tuple[Any, Coordinates]:
    """An array, and the index in NumPy's form, none negative.

    The axes of a mask are one axis of the array, and the mask is one index array.
    """
    it, shape = iter(indices), iter(array.shape)
    items: list[Any] = []
    sizes: list[int] = []
    for item in spec:
        if item is None:
            items.append(slice(None))
            sizes.append(next(shape))
            continue
        index = next(it)
        if isinstance(item, str):
            sizes.append(next(shape))
            items.append(wrapped(index, sizes[-1]) if item == "index" else index)
        elif index.shape:
            items.append(positions_in(index, item))
            sizes.append(math.prod([next(shape) for _ in index.shape]))
    merged = lax.reshape(array, (*sizes, *shape))
    return merged, tuple(items)


def _index(array: Any, *indices: Any, spec: Spec) -> Any:
    array, items = _numpy_index(array, spec, indices)
    return read(array, items) if indices else array


def _index_put(array: Any, values: Any, *indices: Any, spec: Spec, accumulate: bool) -> Any:
    if "mask" in spec:
        return _mask_filled(array, values, indices[0], spec.index("mask"))
    shape = array.shape
    array, items = _numpy_index(array, spec, indices)
    if not items:
        raise RuntimeError("index_put: a mask without axes says nothing of where values go that are not a single one")
    return lax.reshape(_put(array, values, items, accumulate), shape)


def _put(array: Any, values: Any, items: Coordinates, accumulate: bool) -> Any:
    shape = place_of(array, items).shape
    if len(values.shape) > len(shape) or any(
        n not in (1, m) for n, m in zip(reversed(values.shape), reversed(shape), strict=False)
    ):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(shape)}"
        )
    return added(array, items, values) if accumulate else written(array, items, values)


def _mask_filled(array: Any, value: Any, mask: Any, leading: int) -> Any:
    """An array with a single value where a mask is true; ``leading`` axes come before those of the mask."""
    trailing = array.ndim - leading - mask.ndim
    return choose(mask.reshape(*[1] * leading, *mask.shape, *[1] * trailing), value.reshape(()), array)


_put_expanded = deprecated("index_put", "indices] = tensor")


def _check_put(tensor: Tensor, others: Sequence[Any]) -> None:
    values, *indices = others
    _put_expanded(tensor, others)
    if _is_fill(indices, values):
        check_filled(tensor, indices[0])
        return
    for x in others:
        check_apart(tensor, x)


def _is_fill(indices: Sequence[Tensor], values: Tensor) -> bool:
    """Whether the index is one mask and the value one number: then PyTorch calls ``masked_fill_``."""
    return values._type.numel == 1 and len(indices) == 1 and indices[0]._type.dtype in (dtypes.bool_, dtypes.uint8)


_INDEX = Operation(
    "index",
    _index,
    "IndexBackward0",
    ("self", "*indices"),
    ("spec",),
    frozenset(range(1, _MAX_AXES)),
    gradients=Gradients(always_saved=("*indices",)),
)
_INDEX_PUT = Operation(
    "index_put",
    _index_put,
    "IndexPutBackward0",
    ("self", "values", "*indices"),
    ("spec", "accumulate"),
    frozenset(range(2, _MAX_AXES)),
    gradients=Gradients(always_saved=("*indices",)),
    writing=Writing(_check_put),
)


# -- arguments -------------------------------------------------------------------------------------------------------


def _prepared(tensor: Tensor, indices: Sequence[Tensor | None]) -> tuple[Spec, list[Tensor]]:
    """The kind of each item of an index, and the checked index tensors and masks."""
    shape = tensor._type.shape
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    spec: list[int | str | None] = []
    sizes: list[tuple[int, ...]] = []
    bounded: list[tuple[Tensor, int, int]] = []
    axis = 0
    for index in indices:
        if index is None:
            spec.append(None)
            axis += 1
        elif index._type.dtype in (dtypes.bool_, dtypes.uint8):
            rank = len(index._type.shape)
            _check_mask(index, shape, axis)
            count = int(np.count_nonzero(counted(index._value(), _MASK)))
            spec.append(count)
            sizes += [(count,)] * rank
            axis += rank
        else:
            if index._type.dtype not in (dtypes.int64, dtypes.int32):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            if axis >= len(shape):
                raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
            bounded.append((index, len(sizes), shape[axis]))
            spec.append("position")
            sizes.append(index._type.shape)
            axis += 1
    if axis > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    try:
        count = math.prod(sizes[0] if len(sizes) == 1 else np.broadcast_shapes(*sizes))
    except ValueError:
        shapes = ", ".join(str(list(n)) for n in sizes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    if count and not all(size for _, _, size in bounded):
        raise IndexError("index is out of bounds for dimension with size 0")
    signed = False
    if count and tensor._type.numel:
        for index, position, size in bounded:
            signed = _check_bounds(index, position, size) or signed
    if signed:
        spec = ["index" if item == "position" else item for item in spec]
    return tuple(spec), [index for index in indices if index is not None]


def _check_mask(mask: Tensor, shape: Sequence[int], axis: int) -> None:
    """Raise PyTorch's error for a mask that does not fit the axes from ``axis`` on."""
    sizes = mask._type.shape
    if len(sizes) > len(shape) - axis:
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    for i, size in enumerate(sizes):
        if size != shape[axis + i]:
            raise IndexError(
                f"The shape of the mask {list(sizes)} at index {i} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {axis + i}"
            )


def _check_bounds(index: Tensor, axis: int, size: int) -> bool:
    """Raise PyTorch's error for an index beyond an axis; return whether some may be negative."""
    values = elements(index._value())
    if values is None:
        expect_within(index, -size, size)
        return True
    if not values.size or all_below(values, size):
        return False
    low, high = int(values.min()), int(values.max())
    if low < -size or high >= size:
        bad = next(int(i) for i in values.reshape(-1) if not -size <= i < size)
        raise IndexError(f"index {bad} is out of bounds for dimension {axis} with size {size}")
    return True


def index_tensors(tensor: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The elements at index tensors, one for each leading axis; None selects a full axis."""
    find_nodes((tensor,))
    spec, tensors = _prepared(tensor, indices)
    _warn_of_bytes(tensors)
    result = apply(_INDEX, (tensor, *tensors), (spec,))
    if tensor._geometry is None and tensor._storage.strides is None:
        return result
    return laid_out(result, of_index(tensor._geometry_of(), spec, tensors))


def _warn_of_bytes(indices: Sequence[Tensor]) -> None:
    for index in indices:
        if index._type.dtype is dtypes.uint8:
            warn(_BYTE_INDEX, UserWarning)


def _check_arguments(function: str, tensor: Tensor, indices: Any, values: Any) -> None:
    """Raise PyTorch's errors for arguments of ``index_put``."""
    if not isinstance(indices, tuple | list):
        raise TypeError(
            f"{function}(): argument 'indices' (position 1) must be tuple of Tensors, not {type_name(indices)}"
        )
    for i, index in enumerate(indices):
        if not isinstance(index, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type_name(index)}")
    if not isinstance(values, Tensor):
        raise TypeError(f"{function}(): argument 'values' (position 2) must be Tensor, not {type_name(values)}")


def _as_dtype_of(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor:
    """The values to be written, converted to the tensor's type."""
    if values._type.dtype is tensor._type.dtype:
        return values
    if not _is_fill([index for index in indices if index is not None], values):
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{tensor._type.dtype.scalar_name} for the destination and {values._type.dtype.scalar_name} for the source."
        )
    return values.to(tensor._type.dtype)


def _write_operands(
    tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> tuple[list[Tensor], tuple[Any, ...]]:
    """The operands and parameters of a write at index tensors."""
    spec, tensors = _prepared(tensor, indices)
    if accumulate or not _is_fill(tensors, values):
        _warn_of_bytes(tensors)
    elif tensors[0]._type.dtype is dtypes.uint8:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    else:
        spec = tuple(["mask" if isinstance(item, int) else item for item in spec])
    return [tensor, _as_dtype_of(tensor, indices, values), *tensors], (spec, accumulate)


def put_at(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values at index tensors, one for each leading axis; None selects a full axis."""
    check_written(tensor, values)
    return apply_inplace(_INDEX_PUT, *_write_operands(tensor, indices, values, accumulate))


@composite(function=False)
def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write values at index tensors.

    Source: `torch.Tensor.index_put_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put_.html>`_.
    """
    _check_arguments("index_put_", self, indices, values)
    return put_at(self, indices, values, accumulate)


@composite()
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy with values written at index tensors.

    >>> import fgrad.torch as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 2]),), torch.tensor(1.))
    tensor([1., 0., 1.])

    Source: `torch.Tensor.index_put <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put.html>`_.
    """
    _check_arguments("index_put", input, indices, values)
    return apply(_INDEX_PUT, *_write_operands(input, indices, values, accumulate))
