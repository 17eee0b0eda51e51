"""Python's operators on tensors, and the attributes ``T``, ``mT``, ``H``, ``mH``, ``real`` and ``imag``.

The operators skip the cost of binding arguments by name.  For an operand that is neither a tensor nor a number they
return ``NotImplemented``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.write.inplace import apply_inplace
from fgrad.torch.ops.creation.data import from_numpy
from fgrad.torch.ops.elementwise import arithmetic, bitwise, powers, signs
from fgrad.torch.ops.table.dispatch import PARSED, Dispatch, as_method
from fgrad.torch.ops.table.overloads import chooser_of
from fgrad.torch.ops.table.table import NUMBERS, TABLE, operation_of
from fgrad.torch.ops.views import axes, complex_views

Binary = Callable[[Tensor, Any], Any]

_OPERANDS = frozenset((Tensor, *NUMBERS))
_NUMBER_LIKE = (Tensor, *NUMBERS, np.generic)

# NumPy's scalars leave operators to a tensor on the right
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]


#: operators that handlers are given themselves, written by PyTorch in C++ or in Python
_ITSELF = Dispatch(operator=True)
_IN_PYTHON = Dispatch(Rule.WRITTEN, operator=True)


def _as(called: str) -> Dispatch:
    """An operator for which handlers are given a method: ``x * 2`` is a call of ``Tensor.mul``."""
    return Dispatch(called=called, operator=True)


def _enter(name: str, method: Any, dispatch: Dispatch = PARSED) -> None:
    method.__name__ = method.__qualname__ = name
    setattr(Tensor, name, as_method(dispatch)(method))


def _operator(name: str, fast: Binary | Operation, slow: Binary, dispatch: Dispatch) -> None:
    """Enter an operator: ``fast`` for tensors and Python numbers, ``slow`` for subclasses and NumPy scalars too."""
    if isinstance(fast, Operation):
        _enter(name, _applied(fast, slow), dispatch)
        return

    def method(self: Tensor, other: Any) -> Any:
        if other.__class__ in _OPERANDS:
            return fast(self, other)
        return slow(self, other) if isinstance(other, _NUMBER_LIKE) else NotImplemented

    _enter(name, method, dispatch)


def _applied(operation: Operation, slow: Binary) -> Binary:
    """The method of an operator that is a single operation."""

    def method(self: Tensor, other: Any) -> Any:
        if other.__class__ in _OPERANDS or isinstance(other, Tensor):
            return apply(operation, (self, other))
        return slow(self, other) if isinstance(other, _NUMBER_LIKE) else NotImplemented

    return method


def _chosen(function: Any) -> Binary:
    """A function with overloads, called without checking the arguments."""
    chooser = chooser_of(function)

    def call(self: Tensor, other: Any) -> Any:
        chosen, *arguments = chooser(self, other)
        return chosen(*arguments)

    return call


def _swapped(binary: Binary) -> Binary:
    return lambda self, other: binary(other, self)


def _inplace_applied(operation: Operation) -> Binary:
    return lambda self, other: apply_inplace(operation, (self, other))


# -- arithmetic ------------------------------------------------------------------------------------------------------

for _name, _operation, _function in (
    ("add", arithmetic._add.operation, arithmetic.add),
    ("mul", operation_of(arithmetic.mul), arithmetic.mul),
):
    _operator(f"__{_name}__", _operation, _function, _as(_name))
    _operator(f"__r{_name}__", _operation, _function, _as(_name))
    _operator(f"__i{_name}__", _inplace_applied(_operation), TABLE[_name + "_"].call, _as(f"{_name}_"))

_operator("__sub__", arithmetic._sub.operation, arithmetic.sub, _as("sub"))
_operator("__rsub__", arithmetic.rsub, arithmetic.rsub, _IN_PYTHON)
_operator("__isub__", _inplace_applied(arithmetic._sub.operation), TABLE["sub_"].call, _as("sub_"))

_operator("__truediv__", arithmetic._div.operation, arithmetic.div, _as("div"))
_operator("__itruediv__", _inplace_applied(arithmetic._div.operation), TABLE["div_"].call, _as("div_"))


def _quotient_of(self: Tensor, other: Any) -> Any:
    try:
        return powers.reciprocal(self) * other
    except TypeError:
        return NotImplemented


_enter("__rtruediv__", _quotient_of, _IN_PYTHON)
for _name in ("__div__", "__rdiv__", "__idiv__"):
    setattr(Tensor, _name, getattr(Tensor, _name.replace("div", "truediv")))

for _name, _function, _plain, _reflected, _inplace in (
    ("floordiv", arithmetic.floor_divide, _IN_PYTHON, _IN_PYTHON, _as("floor_divide_")),
    ("mod", arithmetic.remainder, _as("remainder"), _IN_PYTHON, _as("remainder_")),
    ("pow", powers.pow, evolve(_IN_PYTHON, name="pow"), _IN_PYTHON, evolve(_IN_PYTHON, name="pow_")),
    ("and", bitwise.bitwise_and, _ITSELF, _as("bitwise_and"), _ITSELF),
    ("or", bitwise.bitwise_or, _ITSELF, _as("bitwise_or"), _ITSELF),
    ("xor", bitwise.bitwise_xor, _ITSELF, _as("bitwise_xor"), _ITSELF),
    ("lshift", bitwise.bitwise_left_shift, _ITSELF, _IN_PYTHON, _ITSELF),
    ("rshift", bitwise.bitwise_right_shift, _ITSELF, _IN_PYTHON, _ITSELF),
):
    _twin = TABLE[_function.__name__ + "_"].call
    _operator(f"__{_name}__", _chosen(_function), _function, _plain)
    _operator(f"__r{_name}__", _swapped(_chosen(_function)), _swapped(_function), _reflected)
    _operator(f"__i{_name}__", _twin, _twin, _inplace)


_enter("__neg__", lambda self: apply(operation_of(arithmetic.neg), (self,)), Dispatch(called="neg"))
_enter("__pos__", lambda self: arithmetic.positive(self), Dispatch(called="positive"))
_enter("__abs__", lambda self: apply(operation_of(signs.abs), (self,)), Dispatch(called="abs"))


def _invert(self: Tensor) -> Tensor:
    if self._type.inexact:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise.bitwise_not(self)


_enter("__invert__", _invert)

# -- comparisons -----------------------------------------------------------------------------------------------------

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _function = TABLE[_name].call
    _operator(f"__{_name}__", _chosen(_function), _function, _as(_name))


def _equal(self: Tensor, other: Any, compared: Binary = Tensor.__eq__) -> Any:
    """Equality, which takes NumPy's arrays of numbers too; the other comparisons leave them to NumPy."""
    if isinstance(other, np.ndarray) and other.dtype.kind in "biufc":
        other = from_numpy(other)
    return compared(self, other)


_enter("__eq__", _equal, _as("eq"))

# -- attributes ------------------------------------------------------------------------------------------------------

_T_OF_ANY_RANK = (
    "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an "
    "error in a future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - "
    "1, -1, -1))` to reverse the dimensions of a tensor."
)
_IDENTITY = "Tensor.{} is deprecated on 0-D tensors. This function is the identity in these cases."
_CONJUGATE = "Tensor.{} is deprecated on 0-D tensors. Consider using x.conj()."


def _reversed_axes(self: Tensor) -> Tensor:
    """The axes in reverse order, as a view."""
    rank = len(self._type.shape)
    if rank != 2:
        warn_once(_T_OF_ANY_RANK if rank else _IDENTITY.format("T"), UserWarning)
    return axes.permute(self, tuple(reversed(range(rank))))


def _matrices_transposed(self: Tensor) -> Tensor:
    """The last two axes exchanged, as a view."""
    rank = len(self._type.shape)
    if not rank:
        warn_once(_IDENTITY.format("mT"), UserWarning)
        return self
    if rank < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {rank}-D tensor.")
    return axes.transpose(self, -2, -1)


def _conjugate_transposed(name: str) -> Callable[[Tensor], Tensor]:
    def attribute(self: Tensor) -> Tensor:
        """The conjugate transpose, as a view."""
        rank = len(self._type.shape)
        if not rank:
            warn_once(_CONJUGATE.format(name), UserWarning)
            return complex_views.conj(self)
        if name == "H" and rank != 2:
            hint = " For batches of matrices, consider using tensor.mH" if rank > 2 else ""
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor.{hint}")
        if rank < 2:
            raise RuntimeError(f"tensor.mH is only supported on matrices or batches of matrices. Got {rank}-D tensor.")
        return complex_views.conj(axes.transpose(self, -2, -1))

    return attribute


def _set_part(part: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Any], None]:
    def write(self: Tensor, value: Any) -> None:
        target = part(self)
        if isinstance(value, Tensor):
            target.copy_(value)
        else:
            target.fill_(value)

    return write


Tensor.T = property(_reversed_axes)  # type: ignore[attr-defined]
Tensor.mT = property(_matrices_transposed)  # type: ignore[attr-defined]
Tensor.H = property(_conjugate_transposed("H"))  # type: ignore[attr-defined]
Tensor.mH = property(_conjugate_transposed("mH"))  # type: ignore[attr-defined]
Tensor.real = property(complex_views.real, _set_part(complex_views.real))  # type: ignore[attr-defined]
Tensor.imag = property(complex_views.imag, _set_part(complex_views.imag))  # type: ignore[attr-defined]
