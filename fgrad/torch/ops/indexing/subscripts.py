"""``x[...]`` and ``x[...] = value``: basic indexing makes views, advanced indexing makes copies.

Items are applied from left to right as in PyTorch (torch/csrc/autograd/python_variable_indexing.cpp): integers, slices,
None and ``...`` each make a view; tensors, lists and booleans are collected and applied at the end.
"""

import operator
from typing import Any

import numpy as np

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.capture import gives_number, note_copy
from fgrad.mutable.tensor.tensor import Tensor, find_nodes, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import constant, is_abstract
from fgrad.mutable.write.copying import copied_into, warn_of_imaginary
from fgrad.torch.ops.creation.copying import fill_
from fgrad.torch.ops.creation.data import tensor_from_data
from fgrad.torch.ops.creation.making import elements_of, tensor_from_array
from fgrad.torch.ops.creation.sequences import is_sequence
from fgrad.torch.ops.indexing.indexing import index_tensors, put_at
from fgrad.torch.ops.table.dispatch import UNLISTED, as_method
from fgrad.torch.ops.table.numbers import check_number, plain_number
from fgrad.torch.ops.views.views import _select, alias_of, expand, slice_axis, unsqueeze, view_sizes

#: a sequence of this length or more is never taken as a tuple
_LONG_SEQUENCE = 32
_NO_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
    "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
    "which will result either in an error or a different result"
)
_ONLY = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"


def _items(index: Any) -> list[Any]:
    """The items of an index; a short sequence that holds not only numbers counts as a tuple."""
    if isinstance(index, tuple):
        return list(index)
    if isinstance(index, int | slice | Tensor | np.ndarray) or not is_sequence(index):
        return [index]
    if len(index) < _LONG_SEQUENCE and any(map(_is_item, index)):
        warn(_NO_TUPLE, UserWarning)
        return list(index)
    return [index]


def _is_item(x: Any) -> bool:
    return x is None or x is Ellipsis or isinstance(x, Tensor | slice) or is_sequence(x)


def _integer(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool | np.bool_)


def _as_index(x: Any) -> Any:
    """Sequences of numbers and NumPy arrays as tensors, and tensors of a single integer as numbers."""
    if x is None or x is Ellipsis or isinstance(x, int | slice):
        return x
    if not isinstance(x, Tensor):
        if isinstance(x, np.ndarray) or (is_sequence(x) and not isinstance(x, str | np.generic)):
            x = tensor_from_data(x)
            if x._type.dtype not in (dtypes.bool_, dtypes.uint8):
                x = x.to(dtypes.int64)
        elif hasattr(type(x), "__index__") and not isinstance(x, np.generic):
            return operator.index(x)  # type: ignore[arg-type]
    if isinstance(x, Tensor) and not x._type.shape and not x._type.inexact:
        if x._type.dtype in (dtypes.bool_, dtypes.uint8) or (is_abstract(x._value()) and not gives_number(x)):
            return x
        return x.item()
    return x


class _Cursor:
    """The state while an index is applied: the view so far, the next axis, and the pending index tensors.

    ``pending`` is empty until the first index tensor; then it has an entry for each axis, None where no tensor indexes
    it (PyTorch: aten/src/ATen/TensorIndexing.h).
    """

    def __init__(self, tensor: Tensor, consumed: int):
        self.result = tensor
        self.axis = 0
        self.pending: list[Tensor | None] = []
        #: how many axes an ellipsis covers
        self.rest = len(tensor._type.shape) - consumed

    def passed(self, count: int) -> None:
        """Skip axes that no tensor indexes."""
        self.axis += count
        if self.pending:
            self.pending += [None] * count

    def indexed(self, index: Tensor) -> None:
        """Add an index tensor, and skip the axes that it consumes."""
        self.pending += [index] if self.pending else [*[None] * self.axis, index]
        self.axis += _axes_consumed(index)

    def flagged(self, flag: bool) -> None:
        """Add a new axis, with one element if the flag is set, else none."""
        self.result = unsqueeze(self.result, self.axis)
        self.indexed(tensor_from_array(np.asarray([0] if flag else [], np.int64), dtypes.int64))

    def selected(self, x: int, position: int) -> None:
        self.result = _selected(self.result, x, position, self.axis)

    def cut(self, x: slice, single: bool) -> None:
        start, stop, step = _bounds(x)
        size = self.result._type.shape[self.axis]
        full = start in (None, 0) and (stop is None or stop >= size) and step in (None, 1)
        if single or not full:
            self.result = slice_axis(self.result, self.axis, start, stop, step)
        self.passed(1)


def _bounds(x: slice) -> tuple[int | None, int | None, int | None]:
    """Start, stop and step of a slice.

    Raises:
      ValueError: the step is not positive.
    """
    start, stop, step = _bound(x.start), _bound(x.stop), _bound(x.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step is not None and step < 0:
        raise ValueError("step must be greater than zero")
    return start, stop, step


def _bound(x: Any) -> int | None:
    """A bound of a slice.

    Raises:
      TypeError: it is not an integer.
    """
    if x is None or x.__class__ is int:
        return x
    if not hasattr(x, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return _as_integer(x)


def _as_integer(x: Any) -> int:
    """An integer of Python's; one of NumPy's may be symbolic, and so may its item."""
    if x.__class__ is int:
        return x
    return x.item() if isinstance(x, np.integer) else operator.index(x)


def _apply_basic(tensor: Tensor, index: Any, for_write: bool = False) -> tuple[Tensor, list[Tensor | None]]:
    """The view by the basic items of an index, and the pending index tensors, by axis of that view.

    Reading a full slice makes a view; writing one (``for_write``) writes the tensor itself.
    """
    items = [_as_index(x) for x in _items(index)]
    rank = len(tensor._type.shape)
    used = sum(_axes_consumed(x) for x in items)
    if used > rank:
        if not rank and isinstance(index, slice):
            find_nodes((tensor,))
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        if not rank and _integer(index):
            if index:
                raise IndexError(f"index {index} is out of bounds for dimension 0 with size 0")
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                "convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    cursor = _Cursor(tensor, used)
    for position, x in enumerate(items):
        if _integer(x):
            cursor.selected(_as_integer(x), position)
        elif isinstance(x, slice):
            cursor.cut(x, index is x and not for_write)
        elif x is None:
            cursor.result = unsqueeze(cursor.result, cursor.axis)
            cursor.passed(1)
        elif x is Ellipsis:
            cursor.passed(cursor.rest)
        elif isinstance(x, bool):
            cursor.flagged(bool(x))
        elif isinstance(x, Tensor):
            if x._type.dtype in (dtypes.bool_, dtypes.uint8) and not x._type.shape:
                cursor.flagged(bool(x))
            else:
                cursor.indexed(x)
        elif isinstance(x, str):
            raise TypeError("new(): invalid data type 'str'")
        else:
            raise IndexError(_ONLY.format(type_name(x)))
    return cursor.result, cursor.pending


def _axes_consumed(x: Any) -> int:
    """How many axes an index item consumes."""
    if isinstance(x, Tensor):
        return len(x._type.shape) if x._type.dtype in (dtypes.bool_, dtypes.uint8) else 1
    return int(_integer(x) or isinstance(x, slice))


def _getitem(self: Tensor, index: Any) -> Tensor:
    if _integer(index) and self._type.shape:
        return _selected(self, _as_integer(index), 0)
    if index.__class__ is slice and self._type.shape:
        return slice_axis(self, 0, *_bounds(index))
    if index.__class__ is tuple and set(map(type, index)) == {int} and len(index) <= len(self._type.shape):
        result = self
        for position, x in enumerate(index):
            result = _selected(result, x, position)
        return result
    if isinstance(index, Tensor) and index._type.shape and self._type.shape:
        return index_tensors(self, (index,))
    result, pending = _apply_basic(self, index)
    if any(entry is not None for entry in pending):
        part = index_tensors(result, pending)
        if not any(x._type.shape for x in pending if x is not None):
            note_copy(part, self)
        return part
    return alias_of(self) if result is self else result


def _selected(tensor: Tensor, index: int, position: int, axis: int = 0) -> Tensor:
    """The view at an index of an axis; ``position`` is that of the item in the whole index, for the error."""
    size = tensor._type.shape[axis]
    if not -size <= index < size:
        _check_fits(index)
        raise IndexError(f"index {index} is out of bounds for dimension {position} with size {size}")
    return _select(tensor, index, axis)


def _check_fits(x: Any) -> None:
    """Raise PyTorch's error for an integer that does not fit into 64 bits."""
    if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63:
        raise ValueError("Overflow when unpacking long long")


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    if index is False:
        return
    if index.__class__ is int and self._type.shape:
        result, pending = _getitem(self, index), ()
    else:
        result, pending = _apply_basic(self, None if index is True else index, True)
    dtype = self._type.dtype
    plain = value.__class__ is float and dtype.is_floating_point and dtype.itemsize > 2 and not pending
    if plain and result._type.shape and not is_tracked(result):
        fill_(result, value)  # untracked, so no node tells a number from a tensor
        return
    source = value if isinstance(value, Tensor) else _as_tensor(self, value)
    if any(entry is not None for entry in pending):
        sizes = _without_leading_ones(source._type.shape)
        put_at(result, pending, source if sizes == source._type.shape else view_sizes(source, sizes))
        return
    copy_to(result, source)


def _as_tensor(tensor: Tensor, value: Any) -> Tensor:
    """A number to be written, as a tensor."""
    if not isinstance(value, bool | int | float | complex | np.integer):
        raise TypeError(f"can't assign a {type_name(value)} to a torch.{tensor._type.dtype.scalar_name}Tensor")
    value = plain_number(value)
    _check_fits(value)
    dtype = tensor._type.dtype
    if not dtypes.is_half(dtype.numpy):  # there what is too large becomes infinite
        check_number(value, dtype)
    if isinstance(value, complex) and not dtype.is_complex:
        value = bool(value) if dtype is dtypes.bool_ else value.real
    return new_tensor(constant(elements_of(value, dtype)), tensor_type(dtype, ()))


def copy_to(target: Tensor, value: Tensor) -> None:
    """``copy_`` of a value, without its leading axes of size 1."""
    shape = target._type.shape
    if value._type.shape == shape:
        copied_into(target, value)
        return
    if not value._type.shape:
        warn_of_imaginary(value._type.dtype, target._type.dtype)
        fill_(target, value)
        return
    source = view_sizes(value, _without_leading_ones(value._type.shape))
    source_shape = source._type.shape
    copied_into(target, source if source_shape == shape else expand(source, shape))


def _without_leading_ones(shape: Ints) -> Ints:
    """A shape without its leading ones."""
    extra = 0
    while extra < len(shape) and shape[extra] == 1:
        extra += 1
    return shape[extra:]


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]


@as_method(UNLISTED)
def _delitem(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


Tensor.__delitem__ = _delitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]
