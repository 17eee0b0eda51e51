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
    first = batch[0]
    for types, collate in _COLLATE:
        if isinstance(first, types):
            return collate(batch)
    if isinstance(first, Mapping):
        return _rebuilt(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[default_collate(column) for column in zip(*batch, strict=False)])
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=False)]
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise _refusal(type(first))


def _arrays(batch: Any) -> Tensor:
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise _refusal(batch[0].dtype)
    return stack([as_tensor(array) for array in batch])


#: the collate functions by type of samples; the first match applies
_COLLATE: list[tuple[Any, Callable[[Any], Any]]] = [
    (Tensor, lambda batch: stack(batch, 0)),
    (np.ndarray, _arrays),
    (float, lambda batch: tensor(batch, dtype=float64)),
    ((np.bool_, np.number, np.object_), as_tensor),
    (int, tensor),
    ((str, bytes), lambda batch: batch),
]
