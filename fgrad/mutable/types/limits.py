"""The limits of the numbers that a dtype holds: ``torch.finfo`` and ``torch.iinfo``."""

import math
from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from attrs import frozen

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import get_default_dtype


@frozen(repr=False, init=False)
class finfo:
    """The limits of a floating point dtype, or of the parts of a complex one.

    Arguments:
      type: a floating point or complex dtype; by default the default dtype.

    Attributes:
      bits: in a number.
      eps: the smallest number such that ``1 + eps != 1``.
      min, max: the smallest and largest finite number.
      smallest_normal, tiny: the smallest positive number of full precision.
      resolution: ten to the power of minus the decimal digits that are always kept.
      dtype: the name of the dtype.

    Raises:
      TypeError: the dtype holds no floating point numbers.

    >>> import fgrad.torch as torch
    >>> torch.finfo(torch.float16).max
    65504.0

    Source: `torch.finfo <https://docs.pytorch.org/docs/2.13/type_info.html#torch.torch.finfo>`_.
    """

    __torch_name__: ClassVar[str] = "torch.finfo"

    bits: int
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float
    dtype: str

    def __init__(self, type: dtypes.dtype | Callable[[], dtypes.dtype] = get_default_dtype) -> None:
        element = dtypes.argument(get_default_dtype() if type is get_default_dtype else type, "finfo", "type", 1)
        if not (element.is_floating_point or element.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        real = element.to_real()
        facts = jnp.finfo(real.name)
        self.__attrs_init__(  # type: ignore[attr-defined]
            bits=8 * real.itemsize,
            eps=float(facts.eps),
            max=float(facts.max),
            min=float(facts.min),
            resolution=10.0 ** -math.floor(facts.nmant * math.log10(2)),
            smallest_normal=float(facts.smallest_normal),
            tiny=float(facts.tiny),
            dtype=real.name,
        )

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


@frozen(repr=False, init=False)
class iinfo:
    """The limits of an integer dtype.

    Arguments:
      type: an integer dtype.

    Attributes:
      bits: in a number.
      min, max: the smallest and the largest number.
      dtype: the name of the dtype.

    Raises:
      TypeError: the dtype is not one of integers.

    >>> import fgrad.torch as torch
    >>> torch.iinfo(torch.int8)
    iinfo(min=-128, max=127, dtype=int8)

    Source: `torch.iinfo <https://docs.pytorch.org/docs/2.13/type_info.html#torch.torch.iinfo>`_.
    """

    __torch_name__: ClassVar[str] = "torch.iinfo"

    bits: int
    max: int
    min: int
    dtype: str

    def __init__(self, type: dtypes.dtype) -> None:
        element = dtypes.argument(type, "iinfo", "type", 1)
        if element.is_floating_point or element.is_complex:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        if element is dtypes.bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        facts = np.iinfo(element.numpy)
        self.__attrs_init__(  # type: ignore[attr-defined]
            bits=facts.bits, max=int(facts.max), min=int(facts.min), dtype=element.name
        )

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
