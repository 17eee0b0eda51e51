"""``x[...]`` and ``x[...] = value``: basic indexing makes views, indices that are tensors make copies.

The index is gone through from left to right as PyTorch does it (torch/csrc/autograd/python_variable_indexing.cpp):
integers, slices, None and ``...`` each become a view; tensors, lists and booleans are collected and indexed at the end.
"""

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.torch import dtypes
from fgrad.torch.core.evaluation import concrete, is_abstract
from fgrad.torch.core.geometry import Ints
from fgrad.torch.core.inplace import apply_inplace
from fgrad.torch.core.operation import Operation, apply
from fgrad.torch.core.overlap import check_apart, deprecated
from fgrad.torch.core.tensor import Tensor, find_nodes
from fgrad.torch.ops.copying import copy_, fill_, laid_out, warn_of_imaginary
from fgrad.torch.ops.creation import made
from fgrad.torch.ops.data import made_of
from fgrad.torch.ops.numbers import check_number
from fgrad.torch.ops.strides import of_index
from fgrad.torch.ops.table import composite
from fgrad.torch.ops.views import alias_of, expand, select, slice_axis, unsqueeze, view_sizes
from fgrad.torch.type_names import type_name

#: a tensor has fewer axes than this
_MOST = 64
#: from this length on a list of numbers and other things is no tuple
_LONG = 32
_NO_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
    "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
    "which will result either in an error or a different result"
)
_BYTES = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
_ONLY = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"


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
            found += jnp.nonzero(index, size=each)
    return tuple(found)


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
    kept=("*indices",),
)
_INDEX_PUT = Operation(
    "index_put",
    _index_put,
    "IndexPutBackward0",
    ("self", "values", "*indices"),
    ("spec", "accumulate"),
    frozenset(range(2, _MOST)),
    kept=("*indices",),
    overlap=_check_put,
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
            count = int(np.count_nonzero(concrete(index._value())))
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
            warnings.warn(_BYTES, UserWarning, stacklevel=4)


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


# -- the index as it is written --------------------------------------------------------------------------------------


def _items(index: Any) -> list[Any]:
    """The items of an index; a short list with something else in it than numbers counts as a tuple."""
    if isinstance(index, tuple):
        return list(index)
    if isinstance(index, list | str) and len(index) < _LONG and any(map(_is_item, index)):
        warnings.warn(_NO_TUPLE, UserWarning, stacklevel=4)
        return list(index)
    return [index]


def _is_item(x: Any) -> bool:
    return x is None or x is Ellipsis or isinstance(x, Tensor | slice | list | tuple | range | str | np.ndarray)


def _integer(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool | np.bool_)


def _as_index(x: Any) -> Any:
    """A sequence of numbers, or a NumPy array, as a tensor; a tensor that is one integer as a number."""
    if isinstance(x, np.ndarray | list | tuple | range):
        x = made_of(x if isinstance(x, np.ndarray) else list(x))
        if x._type.dtype not in (dtypes.bool_, dtypes.uint8):
            x = x.to(dtypes.int64)
    if isinstance(x, Tensor) and not x._type.shape and not x._type.inexact:
        if x._type.dtype in (dtypes.bool_, dtypes.uint8) or is_abstract(x._value()):
            return x
        return x.item()
    return x


class _Walk:
    """The state of going through an index: the view so far, the axis that is next, and the index tensors.

    ``pending`` starts where the first index tensor stands; from then on it has an entry for each item, None for one
    that is no index tensor (PyTorch: aten/src/ATen/TensorIndexing.h).
    """

    def __init__(self, tensor: Tensor, given: int):
        self.result = tensor
        self.axis = 0
        self.pending: list[Tensor | None] = []
        #: how many axes an ellipsis stands for
        self.rest = len(tensor._type.shape) - given

    def passed(self, count: int) -> None:
        """Go on by some axes that no tensor indexes."""
        self.axis += count
        if self.pending:
            self.pending += [None] * count

    def indexed(self, index: Tensor) -> None:
        """Go on by the axes that an index tensor uses up."""
        self.pending += [index] if self.pending else [*[None] * self.axis, index]
        self.axis += _consumes(index)

    def flagged(self, flag: bool) -> None:
        """A new axis that has one element if the flag is set, none if not."""
        self.result = unsqueeze(self.result, self.axis)
        self.indexed(made(np.asarray([0] if flag else [], np.int64), dtypes.int64))

    def selected(self, x: int, place: int) -> None:
        size = self.result._type.shape[self.axis]
        if not -size <= x < size:
            raise IndexError(f"index {x} is out of bounds for dimension {place} with size {size}")
        self.result = select(self.result, self.axis, x)

    def cut(self, x: slice, single: bool) -> None:
        start, stop, step = (_bound(v) for v in (x.start, x.stop, x.step))
        if step == 0:
            raise ValueError("slice step cannot be zero")
        if step is not None and step < 0:
            raise ValueError("step must be greater than zero")
        size = self.result._type.shape[self.axis]
        whole = start in (None, 0) and (stop is None or stop >= size) and step in (None, 1)
        if single or not whole:
            self.result = slice_axis(self.result, self.axis, start, stop, step)
        self.passed(1)


def _bound(x: Any) -> int | None:
    """A bound of a slice.

    Raises:
      TypeError: it is no integer.
    """
    if x is None:
        return None
    if not hasattr(x, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return operator.index(x)


def _sliced(tensor: Tensor, index: Any, written: bool = False) -> tuple[Tensor, list[Tensor | None]]:
    """The view by the basic parts of an index, and the index tensors that are left, by axis of that view.

    To read a slice alone is to make a view even if it is the whole, to write it is to write the tensor itself.
    """
    items = [_as_index(x) for x in _items(index)]
    rank = len(tensor._type.shape)
    used = sum(_consumes(x) for x in items)
    if used > rank:
        if not rank and isinstance(index, slice):
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        if not rank and _integer(index):
            if index:
                raise IndexError(f"index {index} is out of bounds for dimension 0 with size 0")
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    walk = _Walk(tensor, used)
    for place, x in enumerate(items):
        if _integer(x):
            walk.selected(int(x), place)
        elif isinstance(x, slice):
            walk.cut(x, index is x and not written)
        elif x is None:
            walk.result = unsqueeze(walk.result, walk.axis)
            walk.passed(1)
        elif x is Ellipsis:
            walk.passed(walk.rest)
        elif isinstance(x, bool):
            walk.flagged(bool(x))
        elif isinstance(x, Tensor):
            if x._type.dtype in (dtypes.bool_, dtypes.uint8) and not x._type.shape:
                walk.flagged(bool(x))
            else:
                walk.indexed(x)
        elif isinstance(x, str):
            raise TypeError("new(): invalid data type 'str'")
        else:
            raise IndexError(_ONLY.format(type_name(x)))
    return walk.result, walk.pending


def _consumes(x: Any) -> int:
    """How many axes an index item uses up."""
    if isinstance(x, Tensor):
        return len(x._type.shape) if x._type.dtype in (dtypes.bool_, dtypes.uint8) else 1
    return int(_integer(x) or isinstance(x, slice))


def _getitem(self: Tensor, index: Any) -> Tensor:
    if _integer(index) and self._type.shape:
        size = self._type.shape[0]
        if not -size <= index < size:
            raise IndexError(f"index {int(index)} is out of bounds for dimension 0 with size {size}")
        return select(self, 0, int(index))
    result, pending = _sliced(self, index)
    if any(p is not None for p in pending):
        return index_tensors(result, pending)
    return alias_of(self) if result is self else result


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    if index is False:
        return
    result, pending = _sliced(self, None if index is True else index, True)
    given = value if isinstance(value, Tensor) else _assigned(self, value)
    if any(p is not None for p in pending):
        sizes = _stripped(given._type.shape)
        put_at(result, pending, given if sizes == given._type.shape else view_sizes(given, sizes))
        return
    copy_to(result, given)


def _assigned(tensor: Tensor, value: Any) -> Tensor:
    """A number that is to be written as a tensor."""
    if not isinstance(value, bool | int | float | complex):
        raise TypeError(f"can't assign a {type_name(value)} to a torch.{tensor._type.dtype.scalar_name}Tensor")
    check_number(value, tensor._type.dtype)
    if isinstance(value, complex) and not tensor._type.dtype.is_complex:
        value = value.real
    return made(np.asarray(value), tensor._type.dtype)


def copy_to(target: Tensor, value: Tensor) -> None:
    """``copy_`` of a value whose leading axes of size 1 count for nothing."""
    wanted = target._type.shape
    if value._type.shape == wanted:
        copy_(target, value)
        return
    if not value._type.shape:
        warn_of_imaginary(value, target._type.dtype)
        fill_(target, value)
        return
    given = view_sizes(value, _stripped(value._type.shape))
    shape = given._type.shape
    copy_(target, given if shape == wanted else expand(given, wanted))


def _stripped(shape: Ints) -> Ints:
    """A shape without its leading ones."""
    extra = 0
    while extra < len(shape) and shape[extra] == 1:
        extra += 1
    return shape[extra:]


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]
