"""Sizes, strides and the like: one number for all spatial axes, or one for each."""

from typing import Any

from fgrad.mutable.layout.geometry import Ints
from fgrad.torch.ops.table.signature import spread_ints


def expanded(value: Any, dims: int, function: str, name: str, position: int) -> Ints | None:
    """A number for each of the axes; None if there are neither one nor as many as axes.

    The rest is for PyTorch's error where they are not integers: see ``spread_ints``.
    """
    values = spread_ints((value,), function, name, position)
    return values * dims if len(values) == 1 else values if len(values) == dims else None
