"""``torch.Size``: the shape of a tensor, a tuple of integers that stays a ``Size`` under slicing, ``+`` and ``*``."""

import math
import operator
from collections.abc import Iterable
from typing import Any, ClassVar, Self, SupportsIndex, overload

from fgrad.mutable.types.type_names import type_name


class Size(tuple[int, ...]):
    """The lengths of a tensor's dimensions.

    Arguments:
      lengths: an iterable of integers.

    Raises:
      TypeError: an element is not an integer.

    >>> import fgrad.torch as torch
    >>> torch.Size([2, 3]) + (4,), torch.Size([2, 3])[1:], torch.Size([2, 3]).numel()
    (torch.Size([2, 3, 4]), torch.Size([3]), 6)

    Source: `torch.Size <https://docs.pytorch.org/docs/2.13/size.html>`_.
    """

    __slots__ = ()
    __torch_name__: ClassVar[str] = "torch.Size"

    def __new__(cls, lengths: Iterable[SupportsIndex] = (), /) -> Self:
        return tuple.__new__(cls, [_length(i, each) for i, each in enumerate(lengths)])

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)

    def numel(self) -> int:
        """The number of elements of a tensor of this size.

        >>> import fgrad.torch as torch
        >>> torch.Size([2, 3]).numel(), torch.Size([]).numel()
        (6, 1)
        """
        return math.prod(self)

    @overload
    def __getitem__(self, at: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> "Size": ...

    def __getitem__(self, at: SupportsIndex | slice, /) -> "int | Size":
        extent = tuple.__getitem__(self, at)
        return tuple.__new__(Size, extent) if isinstance(at, slice) else extent  # type: ignore[arg-type]

    def __add__(self, other: Any, /) -> "Size":
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type_name(other)}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...], /) -> "Size":
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any, /) -> "Size":
        if not hasattr(times, "__index__"):
            raise TypeError(f"can't multiply sequence by non-int of type '{type_name(times)}'")
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__: Any = __mul__


def _length(i: int, length: Any) -> int:
    """An integer, from an int, a bool, a NumPy integer or an integer tensor of one element."""
    if type(length) is int:
        return length
    try:
        return operator.index(length)
    except TypeError:
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {i} is '{type_name(length)}')") from None
