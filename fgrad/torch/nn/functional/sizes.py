"""Sizes, strides and the like: one number for all spatial axes, or one for each."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.type_names import type_name


@functools.lru_cache(1 << 10)
def _expanded(value: Any, dims: int) -> Ints | None:
    if isinstance(value, int):
        return (int(value),) * dims
    if len(value) == 1:
        return (int(value[0]),) * dims
    return tuple(map(int, value)) if len(value) == dims else None


def expanded(value: Any, dims: int) -> Ints | None:
    """A number for each of the axes; None if there are neither one nor as many as axes."""
    if isinstance(value, np.integer | Tensor):
        value = value.__index__()
    elif not isinstance(value, int):
        if not isinstance(value, Sequence):
            raise TypeError(f"must be int or tuple of ints, not {type_name(value)}")
        value = tuple([int(x) for x in value])
    return _expanded(value, dims)
