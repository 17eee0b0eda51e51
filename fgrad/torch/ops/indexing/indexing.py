"""Indices that are tensors: what ``x[indices]`` copies out, and ``index_put``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.output_strides import of_index
from fgrad.mutable.operation.overlap import check_apart, deprecated
from fgrad.mutable.operation.traits import Gradients, Writing
from fgrad.mutable.tensor.tensor import Tensor, find_nodes
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import concrete, counted, is_abstract
from fgrad.mutable.write.inplace import apply_inplace, check_written
from fgrad.torch.ops.creation.copying import laid_out
from fgrad.torch.ops.table.table import composite

#: a tensor has fewer axes than this
_MOST = 64
_MASK = (
    "We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
    "boolean mask."
)
_BYTES = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."


# -- values ----------------------------------------------------------------------------------------------------------


#: for each item of an index: None for a whole axis, "index" for an index tensor, for a mask how many of it are true, or
#: "mask" where a single value is written to all of them
Spec = tuple[int | str | None, ...]


def _placed(spec: Spec, indices: Sequence[Any]) -> tuple[Any, ...]:
    """An index in NumPy's manner, masks being made index tensors: as many as they have axes."""
    it = iter(indices)
    found: list[Any] = []
    for each in spec:
        if each is None:
            found.append(slice(None))
            continue
        index = next(it)
        if isinstance(each, str):
            found.append(index)
        elif index.shape:
            found += _true_places(index, each)
    return tuple(found)


def _true_places(mask: Any, count: int) -> list[Any]:
    """Where a mask is true, which it is so many times: the places along each axis, in a graph half that of JAX's."""
    flat = mask.reshape(-1).astype(bool)
    among = jnp.where(flat, jnp.cumsum(flat) - 1, count)
    none = jnp.zeros(count, np.int64)
    along = [lax.broadcasted_iota(np.int64, mask.shape, axis).reshape(-1) for axis in range(mask.ndim)]
    return [none.at[among].set(places, mode="drop") for places in along]


def _index(array: Any, *indices: Any, spec: Spec) -> Any:
    return array.at[_placed(spec, indices)].get(mode="promise_in_bounds", wrap_negative_indices=True)


def _index_put(array: Any, values: Any, *indices: Any, spec: Spec, accumulate: bool) -> Any:
    if "mask" in spec:
        return _filled(array, values, indices[0], spec.index("mask"))
    places = _placed(spec, indices)
    if not places:
        raise RuntimeError("index_put: a mask without axes says nothing of where values go that are not a single one")
    place = array.at[places]
    shape = _result_shape(array.shape, places)
    if len(values.shape) > len(shape) or any(
        n not in (1, m) for n, m in zip(reversed(values.shape), reversed(shape), strict=False)
    ):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(shape)}"
        )
    values = jnp.broadcast_to(values, shape)
    if accumulate and array.dtype == np.bool_:
        count = array.astype(np.int32).at[places]
        values = values.astype(np.int32)
        return count.add(values, mode="promise_in_bounds", wrap_negative_indices=True).astype(bool)
    if accumulate:
        return place.add(values, mode="promise_in_bounds", wrap_negative_indices=True)
    # of values written to one place any may win, and PyTorch gives each its gradient
    return place.set(values, mode="promise_in_bounds", wrap_negative_indices=True, unique_indices=True)


def _filled(array: Any, value: Any, mask: Any, before: int) -> Any:
    """An array with a single value where a mask is true, which leaves out so many axes before its own."""
    after = array.ndim - before - mask.ndim
    return jnp.where(mask.reshape(*[1] * before, *mask.shape, *[1] * after), value.reshape(()), array)


def _result_shape(shape: Sequence[int], places: Sequence[Any]) -> tuple[int, ...]:
    axes = [i for i, place in enumerate(places) if not isinstance(place, slice)]
    if not axes:
        return tuple(shape)
    found = np.broadcast_shapes(*[places[i].shape for i in axes])
    rest = [n for i, n in enumerate(shape) if i not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    at = axes[0] if together else 0
    return (*rest[:at], *found, *rest[at:])


_put_expanded = deprecated("index_put", "indices] = tensor")
_mask_expanded = deprecated("masked_fill", "mask] = scalar")


def _check_put(tensor: Tensor, others: Sequence[Any]) -> None:
    values, *indices = others
    _put_expanded(tensor, others)
    if _is_fill(indices, values):
        _mask_expanded(tensor, others)
        return
    for x in others:
        check_apart(tensor, x)


def _is_fill(indices: Sequence[Tensor], values: Tensor) -> bool:
    """Whether a single mask and a single value are given: PyTorch calls ``masked_fill_`` then, with a number."""
    return values._type.numel == 1 and len(indices) == 1 and indices[0]._type.dtype in (dtypes.bool_, dtypes.uint8)


_INDEX = Operation(
    "index",
    _index,
    "IndexBackward0",
    ("self", "*indices"),
    ("spec",),
    frozenset(range(1, _MOST)),
    gradients=Gradients(kept=("*indices",)),
)
_INDEX_PUT = Operation(
    "index_put",
    _index_put,
    "IndexPutBackward0",
    ("self", "values", "*indices"),
    ("spec", "accumulate"),
    frozenset(range(2, _MOST)),
    gradients=Gradients(kept=("*indices",)),
    writing=Writing(_check_put),
)


# -- indices that are tensors ----------------------------------------------------------------------------------------


def _prepared(tensor: Tensor, indices: Sequence[Tensor | None]) -> tuple[Spec, list[Tensor]]:
    """What each item of an index is, and the index tensors and masks, which are checked."""
    shape = tensor._type.shape
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    spec: list[int | str | None] = []
    found: list[Tensor] = []
    sizes: list[tuple[int, ...]] = []
    bounded: list[tuple[Tensor, int, int]] = []
    axis = 0
    for index in indices:
        if index is None:
            spec.append(None)
            axis += 1
            continue
        dtype = index._type.dtype
        if dtype in (dtypes.bool_, dtypes.uint8):
            rank = len(index._type.shape)
            if rank > len(shape) - axis:
                raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
            for j in range(rank):
                if index._type.shape[j] != shape[axis + j]:
                    raise IndexError(
                        f"The shape of the mask {list(index._type.shape)} at index {j} does not match the shape of the "
                        f"indexed tensor {list(shape)} at index {axis + j}"
                    )
            count = int(np.count_nonzero(counted(index._value(), _MASK)))
            spec.append(count)
            found.append(index)
            sizes += [(count,)] * rank
            axis += rank
            continue
        if dtype not in (dtypes.int64, dtypes.int32):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if axis >= len(shape):
            raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
        bounded.append((index, len(sizes), shape[axis]))
        spec.append("index")
        found.append(index)
        sizes.append(index._type.shape)
        axis += 1
    if axis > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    try:
        count = math.prod(np.broadcast_shapes(*sizes))
    except ValueError:
        shapes = ", ".join(str(list(n)) for n in sizes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    if count and not all(size for _, _, size in bounded):
        raise IndexError("index is out of bounds for dimension with size 0")
    if count and tensor._type.numel:
        for each in bounded:
            _check_bounds(*each)
    return tuple(spec), found


def _check_bounds(index: Tensor, axis: int, size: int) -> None:
    value = index._value()
    if is_abstract(value):
        return
    values = concrete(value)
    low, high = int(values.min()), int(values.max())
    if low < -size or high >= size:
        bad = next(int(i) for i in values.reshape(-1) if not -size <= i < size)
        raise IndexError(f"index {bad} is out of bounds for dimension {axis} with size {size}")


def index_tensors(tensor: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The elements at index tensors, one for each leading axis, None for all of an axis."""
    find_nodes((tensor,))
    spec, found = _prepared(tensor, indices)
    _warn_of_bytes(found)
    result = apply(_INDEX, (tensor, *found), (spec,))
    if tensor._geometry is None and tensor._storage.strides is None:
        return result
    return laid_out(result, of_index(tensor._geometry_of(), spec, found))


def _warn_of_bytes(indices: Sequence[Tensor]) -> None:
    for index in indices:
        if index._type.dtype is dtypes.uint8:
            warn(_BYTES, UserWarning)


def _checked(function: str, tensor: Tensor, indices: Any, values: Any) -> None:
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


def _converted(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor:
    """The values that are to be written, in the tensor's type."""
    if values._type.dtype is tensor._type.dtype:
        return values
    if not _is_fill([index for index in indices if index is not None], values):
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{tensor._type.dtype.scalar_name} for the destination and {values._type.dtype.scalar_name} for the source."
        )
    return values.to(tensor._type.dtype)


def _written(
    tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> tuple[list[Tensor], tuple[Any, ...]]:
    """The operands and parameters of a write at index tensors."""
    spec, found = _prepared(tensor, indices)
    if accumulate or not _is_fill(found, values):
        _warn_of_bytes(found)
    elif found[0]._type.dtype is dtypes.uint8:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    else:
        spec = tuple(["mask" if isinstance(each, int) else each for each in spec])
    return [tensor, _converted(tensor, indices, values), *found], (spec, accumulate)


def put_at(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values at index tensors, one for each leading axis, None for all of an axis."""
    check_written(tensor, values)
    return apply_inplace(_INDEX_PUT, *_written(tensor, indices, values, accumulate))


@composite(function=False)
def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write values at index tensors.

    Source: `torch.Tensor.index_put_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put_.html>`_.
    """
    _checked("index_put_", self, indices, values)
    return put_at(self, indices, values, accumulate)


@composite()
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy with values written at index tensors.

    >>> import fgrad.torch as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 2]),), torch.tensor(1.))
    tensor([1., 0., 1.])

    Source: `torch.Tensor.index_put <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put.html>`_.
    """
    _checked("index_put", input, indices, values)
    return apply(_INDEX_PUT, *_written(input, indices, values, accumulate))
