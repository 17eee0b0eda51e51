"""Flat indices as coordinates: ``unravel_index``."""

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch.ops.creation.data import tensor_from_data
from fgrad.torch.ops.table.dispatch import in_python
from fgrad.torch.ops.table.table import composite


@composite(method=False, dispatch=in_python(lambda indices, shape=None: None))
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates of elements of an array, a tensor for each axis, from their flat indices.

    Arguments:
      indices: integers.
      shape: the array's shape; an integer for one axis.

    Raises:
      TypeError: the indices, or the sizes, are not integers.
      ValueError: a size is negative.

    >>> import fgrad.torch as torch
    >>> torch.unravel_index(torch.tensor([4, 1]), (3, 2))
    (tensor([2, 0]), tensor([0, 1]))

    Source: `torch.unravel_index <https://docs.pytorch.org/docs/2.13/generated/torch.unravel_index.html>`_.
    """
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is dtypes.bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, int | Sequence):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = list(itertools.accumulate(reversed((*sizes[1:], 1)), operator.mul))[::-1] if sizes else []
    device = indices.device
    quotients = indices.unsqueeze(-1).floor_divide(tensor_from_data(steps, dtypes.int64, device))
    return (quotients % tensor_from_data(sizes, dtypes.int64, device)).unbind(-1)
