"""Nested sequences as arrays: their shape, their type and their elements.

NOTE [Whatever can be indexed is a sequence]
PyTorch takes as a sequence what Python's C interface does: lists, tuples, ranges, deques, buffers, and objects that
define ``__getitem__``.  The first elements determine the shape, all elements the type; then all are read, and must fit.
A string is an infinitely nested sequence of strings.

Source: torch/csrc/utils/tensor_new.cpp (``compute_sizes``, ``infer_scalar_type``, ``recursive_store``).
"""

import operator
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype
from fgrad.mutable.types.promotion import promote_types
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.creation.making import inferred_dtype

#: the deepest nesting
MOST_DIMENSIONS = 128

_SLOW = (
    "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a "
    "single numpy.ndarray with numpy.array() before converting to a tensor."
)
#: types whose values all have one element type
_REAL = {bool, int, float}
_NUMBERS = {*_REAL, complex}


def is_sequence(x: Any) -> bool:
    """Whether data is a sequence: see NOTE [Whatever can be indexed is a sequence]."""
    if isinstance(x, list | tuple | str | bytes):
        return True
    # looked up in the classes themselves, since a metaclass may have one too
    return not isinstance(x, Tensor | dict | np.generic) and any("__getitem__" in vars(c) for c in type(x).__mro__)


def inferred(data: Any) -> Dtype:
    """The type that PyTorch gives to data: the default types for Python numbers, else their own.

    Raises:
      TypeError: it is or holds text.
      RuntimeError: it is or holds something that is neither a number nor a sequence.
    """
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type_name(data)}'")
    if isinstance(data, np.generic | np.ndarray):
        return dtypes.from_numpy(data.dtype)
    if isinstance(data, bool | int | float | complex):
        return inferred_dtype(data)
    if isinstance(data, Tensor):
        return data._type.dtype
    if not is_sequence(data):
        raise RuntimeError(f"Could not infer dtype of {type_name(data)}")
    items = data if isinstance(data, list | tuple) else [data[i] for i in range(len(data))]
    if not len(items):
        return get_default_dtype()
    by_type = {type(x): x for x in items}
    dtype = None
    for x in by_type.values() if by_type.keys() <= _NUMBERS else items:
        if x is data:
            raise TypeError("new(): self-referential lists are incompatible")
        item_dtype = inferred(x)
        dtype = item_dtype if dtype is None or dtype is item_dtype else promote_types(dtype, item_dtype)
        if dtype is dtypes.complex128:
            break
    assert dtype is not None
    return dtype


def shape_of(data: Any) -> list[int]:
    """The shape of data according to its first elements.

    Raises:
      ValueError: it is too deep, or has a length but no first element.
    """
    shape = []
    while is_sequence(data):
        shape.append(len(data))
        if len(shape) > MOST_DIMENSIONS:
            raise ValueError(f"too many dimensions '{type_name(data)}'")
        if not shape[-1]:
            break
        try:
            data = data[0]
        except Exception as e:
            raise ValueError(f"could not determine the shape of object type '{type_name(data)}'") from e
    return shape


def elements(data: Any, shape: Sequence[int], dtype: Dtype) -> np.ndarray:
    """The elements of data of a shape, for conversion to an element type.

    Raises:
      ValueError: a sequence in it has another length than the shape says.
      TypeError: an item is not a sequence where others are, or not a number.
    """
    if 0 in shape:
        return np.zeros(shape)
    items = [data]
    for depth, size in enumerate(shape):
        if depth and any(isinstance(x, np.ndarray) for x in items):
            warn_once(_SLOW)
            item_shape = tuple(shape[depth:])
            if all(type(x) is np.ndarray and x.shape == item_shape and x.dtype == items[0].dtype for x in items):
                return np.array(items).reshape(shape)
        items = [x for sequence in items for x in _items(sequence, size, depth)]
    if not _read_by_numpy(dtype).issuperset(map(type, items)):
        items = _numbers(items, dtype)
    return np.array(items).reshape(shape)


def _items(sequence: Any, size: int, depth: int) -> Any:
    if not isinstance(sequence, list | tuple):
        try:
            sequence = list(sequence)
        except TypeError as e:
            raise TypeError("not a sequence") from e
    if len(sequence) != size:
        raise ValueError(f"expected sequence of length {size} at dim {depth} (got {len(sequence)})")
    return sequence


def _read_by_numpy(dtype: Dtype) -> set[type]:
    """The Python types that NumPy converts to an element type as PyTorch does."""
    if dtype is dtypes.bool_:
        return {bool}
    return _NUMBERS if dtype.is_complex else _REAL


def _numbers(items: Sequence[Any], dtype: Dtype) -> Any:
    """Items as numbers, by the methods that Python's C interface calls."""
    if dtype.is_complex:
        return [_complex_of(x) for x in items]
    if dtype.is_floating_point:
        return np.frombuffer(array("d", items))
    if dtype is dtypes.bool_:
        return [bool(x) if isinstance(x, float | complex | np.bool_) else operator.index(x) != 0 for x in items]
    return [x if isinstance(x, float) else operator.index(x) for x in items]


def _complex_of(x: Any) -> complex:
    if isinstance(x, str | bytes) or not any(
        hasattr(type(x), name) for name in ("__complex__", "__float__", "__index__")
    ):
        raise TypeError(f"must be real number, not {type_name(x)}")
    return complex(x)
