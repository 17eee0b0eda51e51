"""Operands: tensors and Python numbers, their common type, and conversion to it.

For operands of given types an operation is a function of arrays, which a plan records.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import define, frozen
from jax import lax

from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, TensorType
from fgrad.mutable.types.dtypes import bfloat16, dtype as Dtype, float16, float32, from_numpy
from fgrad.mutable.types.promotion import (
    Operand as Promoted,
    can_cast,
    number as promoted_number,
    result as promoted_result,
    tensor as promoted_tensor,
)
from fgrad.mutable.types.symbolic import as_array, concrete
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import constant
from fgrad.seam import ShapedArray, shown

#: types of operands: a tensor type, the type of a Python number, or None for an operand left out
OperandType = TensorType | type | None

#: how many Python numbers of a class are kept as arrays
NUMBERS_KEPT = 4096


def cast(x: Any, dtype: Dtype) -> Any:
    """An array converted to another dtype, as PyTorch does it."""
    new = dtype.numpy
    if x.dtype == new:
        return x
    if new == np.bool_:
        return lax.ne(x, lax.full_like(x, 0))
    if x.dtype.kind == "c" and new.kind != "c":
        x = lax.real(x)
    if new.kind in "iu" and x.dtype.kind not in "biu":
        return _truncated(x, new)
    return lax.convert_element_type(x, new)


def _truncated(x: Any, new: np.dtype[Any]) -> Any:
    """Floating-point numbers as integers; those out of range as x86 instructions convert them.

    They become the smallest integer of 32 or 64 bits, truncated to its lowest bits for smaller types.
    """
    if x.dtype.itemsize == 2:
        x = lax.convert_element_type(x, np.float32)  # a type that can represent the bounds
    wide = np.dtype(np.int32 if new.itemsize < 4 or new == np.int32 else np.int64)
    least = int(np.iinfo(wide).min)
    fits = lax.ge(x, lax.full_like(x, least)) & lax.lt(x, lax.full_like(x, -least))
    return lax.convert_element_type(lax.convert_element_type(lax.select(fits, x, lax.full_like(x, least)), wide), new)


def check_cast(result: Dtype, into: Dtype) -> None:
    """Raise PyTorch's error if results of one type may not be written to a tensor of another."""
    if not can_cast(result, into):
        raise RuntimeError(
            f"result type {result.scalar_name} can't be cast to the desired output type {into.scalar_name}"
        )


@frozen
class Written:
    """The type of the tensor that an operation writes; its sizes may be symbols."""

    dtype: Dtype
    shape: tuple[Any, ...]


def cast_into(value: Any, into: Written, common: Dtype | None) -> Any:
    if tuple(value.shape) != into.shape:
        raise RuntimeError(
            f"output with shape {list(into.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    if common is not None:
        check_cast(from_numpy(value.dtype), into.dtype)
    return cast(value, into.dtype)


def array_type_of(type: OperandType, derived: bool = True) -> ShapedArray:
    """The type of an operand in graphs; a number without a derivative takes the type of whatever it meets."""
    if isinstance(type, TensorType):
        return type.array
    array = NUMBER_TYPES[type].array  # type: ignore[index]
    return array if derived else array.update(weak_type=True)


def promoted(types: Sequence[OperandType]) -> Dtype:
    """The common type of operands by PyTorch's promotion rules."""
    return promoted_result(tuple([_promotion_operand(t) for t in types if t is not None]))


def _promotion_operand(type: OperandType) -> Promoted:
    if isinstance(type, TensorType):
        if type.number is None:
            return promoted_tensor(type.dtype, len(type.shape))
        return promoted_number(type.number(0))
    return promoted_number(type(0))  # type: ignore[misc]


#: by class and value, zeros by how they are written
_numbers: dict[type, dict[Any, Any]] = {kind: {} for kind in NUMBER_TYPES}


def number(x: Any) -> Any:
    """A Python number as an array of 64 bits.

    Raises:
      OverflowError: it is an integer that does not fit; see `with_unsigned`.
    """
    kind = type(x)
    known = _numbers.get(kind)
    if known is None:  # a symbolic number
        return as_array(x, NUMBER_TYPES[x.__class__].dtype.numpy)
    key = x if x or kind is not float else repr(x)
    array = known.get(key)
    if array is None:
        if len(known) >= NUMBERS_KEPT:
            known.clear()
        array = constant(np.asarray(x, NUMBER_TYPES[kind].dtype.numpy))
        if x == x and kind is not complex:  # equal complex numbers may differ in the signs of zeros
            known[key] = array
    return array


def getter(indices: Sequence[int]) -> Callable[[Any], Any]:
    """``itemgetter`` for a sequence of elements, whatever their number."""
    first = indices[0] if indices else 0
    if list(indices) == list(range(first, first + len(indices))):
        return itemgetter(slice(first, first + len(indices)))
    return itemgetter(*indices)


def counts_as_number(x: Tensor) -> bool:
    """Whether PyTorch takes a tensor in the place of a number: it has no axes, and no gradient has to reach it."""
    return not x._type.shape and not is_tracked(x)


def number_of(function: str, name: str, x: Any, kind: str = "Number") -> Any:
    """The Python number that a user gives for a parameter, perhaps as one of NumPy's or in a tensor.

    Raises:
      TypeError: it is a tensor that does not count as a number.
    """
    if isinstance(x, Tensor):
        if not counts_as_number(x):
            raise TypeError(f"{function}(): argument '{name}' must be {kind}, not {type_name(x)}")
        return x.item()  # type: ignore[attr-defined]
    return x.item() if isinstance(x, np.generic) else x


def float_of(function: str, name: str, x: Any) -> float:
    """The same for a parameter that PyTorch takes as a float."""
    return x if x.__class__ is float else float(number_of(function, name, x, "float"))


def numbers_in(function: str, params: Mapping[str, Any]) -> tuple[Any, ...]:
    """The static parameters of a function, with their numbers in the place of tensors.

    Raises:
      TypeError: a tensor does not count as a number.
    """
    return tuple([concrete(number_of(function, name, x)) if isinstance(x, Tensor) else x for name, x in params.items()])


def with_unsigned(operands: Sequence[Any], dtype: Dtype) -> tuple[Any, ...]:
    """The operands without integers of 2**63 and more, which PyTorch takes as unsigned ones of 64 bits.

    Where an operation is computed in a floating point ``dtype`` they are floats, else the signed integers of the same
    bits.

    Raises:
      OverflowError: an integer fits neither type.
    """
    return tuple([_fitted(x, dtype) if x.__class__ is int else x for x in operands])


def _fitted(x: int, dtype: Dtype) -> int | float:
    if -(1 << 63) <= x < 1 << 63:
        return x
    check_64_bits(x)
    return float(x) if dtype.is_floating_point or dtype.is_complex else x - (1 << 64)


def check_64_bits(x: int) -> None:
    """Raise PyTorch's error for an integer that fits 64 bits neither with a sign nor without."""
    if not -(1 << 63) <= x < 1 << 64:
        problem = "int too big to convert" if x > 0 else "can't convert negative int to unsigned"
        raise OverflowError(f"{problem}\n\n{shown(x)} does not fit into 64 bits. Way out: a float, {shown(x)}.0")


@define(eq=False)
class ArrayFunction:
    """The function from the present operands' arrays to the list of results.

    Attributes:
      function: the operation's function, of all operands and the static parameters.
      static: the static parameters by name.
      count: the number of operands, present or not.
      present: the positions of those present.
      fixed: the positions of those that are not cast.
      common: the type the others are cast to; None for no cast.
      half: the half-precision type of results computed in single precision; None if that is not done.
      into: the type of the tensor that the first result is written to, if any.
      single: whether the function returned one result rather than a sequence; known once it was called.
    """

    function: Callable[..., Any]
    static: Mapping[str, Any]
    count: int
    present: Sequence[int]
    fixed: frozenset[int]
    common: Dtype | None
    half: Dtype | None
    into: Written | None
    single: bool = True

    def __call__(self, *present: Any) -> list[Any]:
        arrays: list[Any] = [None] * self.count
        for i, x in zip(self.present, present, strict=True):
            arrays[i] = x if i in self.fixed else self._converted(x)
        results = self._results(arrays)
        if self.half is not None:
            results = [cast(x, self.half) for x in results]
        if self.into is not None:
            results[0] = cast_into(results[0], self.into, self.common)
        return results

    def _converted(self, x: Any) -> Any:
        if self.half is not None and (self.common is not None or x.dtype == self.half.numpy):
            return cast(x, float32)
        return x if self.common is None else cast(x, self.common)

    def _results(self, arrays: Sequence[Any]) -> list[Any]:
        try:
            results = self.function(*arrays, **self.static)
        except NotImplementedError:
            # PyTorch first checks whether the result could be written at all
            if self.into is not None and self.common is not None:
                check_cast(self.common, self.into.dtype)
            raise
        self.single = not isinstance(results, tuple | list)
        return [results] if self.single else list(results)


def half_of(common: Dtype | None, types: Sequence[OperandType]) -> Dtype | None:
    """The half-precision type of an operation's results, if they have one."""
    dtype = next((t.dtype for t in types if isinstance(t, TensorType)), None) if common is None else common
    return dtype if dtype is float16 or dtype is bfloat16 else None
