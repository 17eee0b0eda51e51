"""Collating samples into batches."""

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import float64
from fgrad.torch.ops.creation.data import as_tensor, tensor
from fgrad.torch.ops.views.joining import stack

#: arrays of these dtypes do not become tensors: bytes, objects, strings
np_str_obj_array_pattern = re.compile(r"[SaUO]")

#: what collates samples of a type, or of one of several
FnMap = dict[Any, Callable[..., Any]]


def _refusal(element: Any) -> TypeError:
    return TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {element}"
    )


def _rebuilt(like: Any, entries: dict[Any, Any] | list[Any]) -> Any:
    """Entries in a container of the same type, if possible; else in a plain one."""
    try:
        if isinstance(like, MutableMapping | MutableSequence):
            rebuilt: Any = copy.copy(like)
            for key, entry in entries.items() if isinstance(entries, dict) else enumerate(entries):
                rebuilt[key] = entry
            return rebuilt
        return type(like)(entries)
    except TypeError:
        return entries


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays to tensors, also within containers.

    >>> import numpy as np
    >>> default_convert([np.array([1, 2]), "name"])
    [tensor([1, 2]), 'name']

    Source: `torch.utils.data.default_convert
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.default_convert>`_.
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if np_str_obj_array_pattern.search(data.dtype.str) else as_tensor(data)
    if isinstance(data, np.generic) and not isinstance(data, np.str_):
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        elements = [default_convert(each) for each in data]
        return type(data)(*elements) if hasattr(data, "_fields") else elements
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _rebuilt(data, [default_convert(each) for each in data])
    return data


def default_collate(batch: Any) -> Any:
    """A list of samples as a batch: tensors stacked, numbers as a tensor, containers recursively.

    Raises:
      TypeError: a sample is of another type.
      RuntimeError: samples that are sequences are not of the same length.

    >>> import fgrad.torch as torch
    >>> default_collate([(torch.tensor([1., 2.]), 0), (torch.tensor([3., 4.]), 1)])
    [tensor([[1., 2.],
            [3., 4.]]), tensor([0, 1])]
    >>> default_collate([{"name": "a"}, {"name": "b"}])
    {'name': ['a', 'b']}

    Source: `torch.utils.data.default_collate
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.default_collate>`_.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    """A list of samples as a batch, by functions for types of samples, which containers apply to their elements.

    Arguments:
      batch: the samples, of one type.
      collate_fn_map: from a type or types to a function of the batch and ``collate_fn_map``.  That of the samples' own
        type is taken, or else the first of whose types they are instances.

    Raises:
      TypeError: a sample is of another type.
      RuntimeError: samples that are sequences are not of the same length.
    """
    first = batch[0]
    functions: FnMap = collate_fn_map or {}
    for types in (type(first),) if type(first) in functions else functions:
        if isinstance(first, types):
            return functions[types](batch, collate_fn_map=collate_fn_map)

    def element(batch: Any) -> Any:
        return collate(batch, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _rebuilt(first, {key: element([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[element(column) for column in zip(*batch, strict=False)])
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [element(column) for column in zip(*batch, strict=False)]
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise _refusal(type(first))


def collate_tensor_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Tensor:
    """Tensors stacked."""
    return stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    """Stack arrays, converted to tensors, as the map does tensors."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise _refusal(batch[0].dtype)
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Tensor:
    """NumPy's numbers as a tensor."""
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Tensor:
    """Floats as a tensor in double precision."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Tensor:
    """Integers as a tensor."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: FnMap | None = None) -> Any:
    """Leave strings as they are."""
    return batch


#: the functions of ``default_collate``; libraries enter types of their own
default_collate_fn_map: FnMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
