"""The dtype of a result: PyTorch's rules of promotion.

NOTE [Categories of operands]: A dtype with elements of a higher kind (boolean, integer, floating point, complex) always
wins.  Within a kind, a tensor with dimensions outranks a tensor without, and that outranks a Python number: a float64
tensor of no dimensions does not turn a float32 vector into a float64 one.  So each category is promoted in itself, and
the categories are then combined from the lowest upwards.
"""

import functools
from enum import IntEnum

import numpy as np

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import bool_, dtype, float32, int16, int64


class Category(IntEnum):
    """What sort of operand it is, from the one that decides least to the one that decides most."""

    NUMBER = 0
    ZERO_DIM = 1
    DIMENSIONED = 2

    __hash__ = int.__hash__  # an operand is looked up for each operation; Enum's own hash is a Python function


# looking up a member on its class takes longer than the rest of naming an operand
_NUMBER, _ZERO_DIM, _DIMENSIONED = Category

Operand = tuple[dtype, Category]

_WIDE_UNSIGNED = frozenset((dtypes.uint16, dtypes.uint32, dtypes.uint64))


def _kind(of: dtype) -> int:
    return 3 if of.is_complex else 2 if of.is_floating_point else 0 if of is bool_ else 1


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that is at least as large as both and of at least their kinds.

    Raises:
      RuntimeError: for an unsigned integer of more than 8 bits together with anything but itself and floating point.

    >>> import fgrad.torch as torch
    >>> torch.promote_types(torch.uint8, torch.int8), torch.promote_types(torch.float16, torch.bfloat16)
    (torch.int16, torch.float32)

    Source: `torch.promote_types <https://docs.pytorch.org/docs/2.13/generated/torch.promote_types.html>`_.
    """
    one = dtypes.argument(type1, "promote_types", "type1", 1)
    other = dtypes.argument(type2, "promote_types", "type2", 2)
    return _promoted(one, other)


@functools.cache
def _promoted(one: dtype, other: dtype) -> dtype:
    if one is other:
        return one
    if one in dtypes.FLOAT8 or other in dtypes.FLOAT8:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{one.scalar_name} and {other.scalar_name}"
        )
    low, high = sorted((one, other), key=_kind)
    if {one, other} & _WIDE_UNSIGNED and not high.is_floating_point:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{one.scalar_name} and {other.scalar_name}"
        )
    if high.is_complex and _kind(low) >= 2:
        return _promoted(high.to_real(), low.to_real()).to_complex()
    if _kind(low) < _kind(high):
        return high
    if low.itemsize == high.itemsize:
        return float32 if high.is_floating_point else int16  # float16 with bfloat16, and uint8 with int8
    return max(low, high, key=lambda each: each.itemsize)


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of one dtype may be written to a tensor of another: not if it is of a lower kind.

    >>> import fgrad.torch as torch
    >>> torch.can_cast(torch.float64, torch.float16), torch.can_cast(torch.float32, torch.int64)
    (True, False)

    Source: `torch.can_cast <https://docs.pytorch.org/docs/2.13/generated/torch.can_cast.html>`_.
    """
    return _kind(dtypes.argument(from_, "can_cast", "from_", 1)) <= _kind(dtypes.argument(to, "can_cast", "to", 2))


def number(value: bool | int | float | complex | np.generic) -> Operand:
    """A Python (or NumPy) number as an operand: floating point and complex numbers count as the default dtype.

    >>> number(2), number(0.5)
    ((torch.int64, <Category.NUMBER: 0>), (torch.float32, <Category.NUMBER: 0>))
    """
    kind = type(value)
    if kind is float:
        return dtypes.get_default_dtype(), _NUMBER
    if kind is int:
        return int64, _NUMBER
    if kind is bool:
        return bool_, _NUMBER
    if isinstance(value, np.integer | int):
        return int64, _NUMBER
    if isinstance(value, np.floating | float | np.bool_):  # PyTorch takes NumPy's booleans for floats
        return dtypes.get_default_dtype(), _NUMBER
    return dtypes.default_complex_dtype(), _NUMBER


def tensor(of: dtype, dimensions: int) -> Operand:
    """A tensor of a dtype with some number of dimensions as an operand.

    >>> tensor(float32, 2)
    (torch.float32, <Category.DIMENSIONED: 2>)
    """
    return of, _DIMENSIONED if dimensions else _ZERO_DIM


# Programs meet few combinations; only torch.cat and the like have many operands, hence the bound.
@functools.lru_cache(maxsize=4096)
def result(operands: tuple[Operand, ...]) -> dtype:
    """The dtype in which an operation on some operands is computed; see NOTE [Categories of operands].

    Raises:
      RuntimeError: as `promote_types` does.

    >>> result((tensor(int16, 1), number(300))), result((tensor(int16, 1), number(0.5)))
    (torch.int16, torch.float32)
    >>> result((tensor(float32, 1), tensor(dtypes.float64, 0)))
    torch.float32

    Source: `torch.result_type <https://docs.pytorch.org/docs/2.13/generated/torch.result_type.html>`_.
    """
    promoted: dtype | None = None
    for category in Category:
        same_category = [of for of, its_category in operands if its_category is category]
        if same_category:
            own_result = functools.reduce(_promoted, same_category)
            promoted = own_result if promoted is None else _combined(own_result, promoted)
    if promoted is None:
        raise ValueError("promotion.result needs at least one operand.")
    return promoted


def _combined(higher: dtype, lower: dtype) -> dtype:
    """Of a category's dtype and that of the categories below it."""
    if higher.is_floating_point and lower.is_complex:
        return higher.to_complex()
    if _kind(lower) <= _kind(higher):
        return higher
    return _promoted(higher, lower) if higher is bool_ else lower
