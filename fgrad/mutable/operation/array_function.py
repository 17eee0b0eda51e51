"""An operation with operands of given types as a function of arrays: what a plan records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define

from fgrad.mutable.operation.operands import OperandType, cast, check_cast, written
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.types.dtypes import bfloat16, dtype as Dtype, float16, float32


@define(eq=False)
class ArrayFunction:
    """From arrays for the operands that are there to the list of results.

    Attributes:
      function: the operation's function, of all operands and the static parameters.
      static: the static parameters by name.
      count: how many operands there may be.
      present: the places of those that are there.
      fixed: the places of those that are left as they are.
      common: the type the others are cast to; None for none.
      half: the type of half precision of what is computed in single precision; None if nothing is.
      into: the type of the tensor that the first result is written to, if it is.
      single: whether the function gave a result and no sequence of results; known when it was called.
    """

    function: Callable[..., Any]
    static: Mapping[str, Any]
    count: int
    present: Sequence[int]
    fixed: frozenset[int]
    common: Dtype | None
    half: Dtype | None
    into: TensorType | None
    single: bool = True

    def __call__(self, *given: Any) -> list[Any]:
        arrays: list[Any] = [None] * self.count
        for i, x in zip(self.present, given, strict=True):
            arrays[i] = x if i in self.fixed else self._converted(x)
        results = self._results(arrays)
        if self.half is not None:
            results = [cast(x, self.half) for x in results]
        if self.into is not None:
            results[0] = written(results[0], self.into, self.common)
        return results

    def _converted(self, x: Any) -> Any:
        if self.half is not None and (self.common is not None or x.dtype == self.half.numpy):
            return cast(x, float32)
        return x if self.common is None else cast(x, self.common)

    def _results(self, arrays: Sequence[Any]) -> list[Any]:
        try:
            found = self.function(*arrays, **self.static)
        except NotImplementedError:
            # PyTorch looks first whether the result could be written at all
            if self.into is not None and self.common is not None:
                check_cast(self.common, self.into.dtype)
            raise
        self.single = not isinstance(found, tuple | list)
        return [found] if self.single else list(found)


def half_of(common: Dtype | None, types: Sequence[OperandType]) -> Dtype | None:
    """The type of half precision in which an operation's results are, if they are."""
    dtype = next((t.dtype for t in types if isinstance(t, TensorType)), None) if common is None else common
    return dtype if dtype is float16 or dtype is bfloat16 else None
