"""Sums, differences, products, quotients and remainders."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.operation.output_strides import elementwise, elementwise_of_two
from fgrad.mutable.operation.traits import BY_OPERAND, OF_TENSORS
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.types.dtypes import bool_, dtype as Dtype
from fgrad.torch.ops.table.broadcasting import (
    Types,
    aligned,
    check_broadcast,
    choose,
    common,
    derivative,
    inexact,
    without_factor,
)
from fgrad.torch.ops.table.kinds import check_divisor, check_factor, check_kinds, kind, single
from fgrad.torch.ops.table.numbers import check_fits, is_one
from fgrad.torch.ops.table.outputs import FOUND, NOT_TAKEN
from fgrad.torch.ops.table.overloads import Choice, add_alias, chooser_of, overload, overloaded
from fgrad.torch.ops.table.table import Array, Number, Operand, composite, operation

SUBTRACTED_BOOLS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
    "instead."
)
_BOOL = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
    "`~` or `logical_not()` operator instead."
)
NEGATED_BOOL = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
    "`logical_not()` operator instead."
)
_NUMBER_SECOND = (
    "Tensor input, Tensor other, *, Tensor out = None",
    "Tensor input, Number other, *, Tensor out = None",
)


# -- sums and differences --------------------------------------------------------------------------------------------


def _scaled(combine: Callable[..., Any], x: Any, y: Any, alpha: Any) -> Any:
    """``x`` combined with ``alpha * y``; the factor is first rounded to the type, which it may not change."""
    check_factor("alpha", alpha, y)
    if kind(alpha) == "c" and kind(y) != "c":
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return single(lambda x, y, factor: combine(x, y * factor))(x, y, alpha.astype(y.dtype))


@overload("add", "AddBackward0", overloads=OF_TENSORS, promote=common, strides=elementwise, constants=(("alpha", 1),))
def _add(input: Operand, other: Operand) -> Any:
    check_broadcast(input, other)
    return input + other


@overload("add", "AddBackward0", overloads=OF_TENSORS, promote=without_factor, strides=elementwise_of_two)
def _add_scaled(input: Operand, other: Operand, alpha: Number) -> Any:
    check_broadcast(input, other)
    return _scaled(operator.add, input, other, alpha)


def _checked_factor(alpha: Any, input: Any, other: Any) -> Any:
    if not isinstance(alpha, complex):  # for which there is another error
        check_fits(alpha, input, other)
    return alpha


@overloaded(inplace=True, former=["input, alpha, other"], foreach=True)
def add(input: Operand, other: Operand, *, alpha: Number = 1) -> Choice:  # type: ignore[assignment]
    """The sum ``input + alpha * other``, element by element.

    >>> import fgrad.torch as torch
    >>> torch.add(torch.tensor([1., 2.]), torch.tensor([10., 20.]), alpha=2)
    tensor([21., 42.])

    Source: `torch.add <https://docs.pytorch.org/docs/stable/generated/torch.add.html>`_.
    """
    return (_add, input, other) if is_one(alpha) else (_add_scaled, input, other, _checked_factor(alpha, input, other))


def _difference(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the operands of a subtraction, which booleans do not have."""
    bools = [t is bool or (isinstance(t, TensorType) and t.dtype is bool_) for t in types[:2]]
    if all(bools):
        raise RuntimeError(SUBTRACTED_BOOLS)
    if any(bools):
        raise RuntimeError(_BOOL)
    return common(types[:2], params)


@overload(
    "sub", "SubBackward0", overloads=OF_TENSORS, promote=_difference, strides=elementwise, constants=(("alpha", 1),)
)
def _sub(input: Operand, other: Operand) -> Any:
    check_broadcast(input, other)
    return input - other


@overload("sub", "SubBackward0", overloads=OF_TENSORS, promote=_difference, strides=elementwise_of_two)
def _sub_scaled(input: Operand, other: Operand, alpha: Number) -> Any:
    check_broadcast(input, other)
    return _scaled(operator.sub, input, other, alpha)


@overloaded(inplace=True, former=["input, alpha, other"], foreach=True)
def sub(input: Operand, other: Operand, *, alpha: Number = 1) -> Choice:
    """The difference ``input - alpha * other``, element by element.

    Source: `torch.sub <https://docs.pytorch.org/docs/stable/generated/torch.sub.html>`_.
    """
    return (_sub, input, other) if is_one(alpha) else (_sub_scaled, input, other, _checked_factor(alpha, input, other))


@overload("rsub", "RsubBackward0", promote=_difference, strides=elementwise_of_two)
def _rsub(input: Array, other: Array, alpha: Number) -> Any:
    check_broadcast(other, input)
    return _scaled(operator.sub, other, input, alpha)


@overload(
    "rsub",
    "RsubBackward1",
    wrapped=lambda input, other, alpha: sub(other, input, alpha=alpha),
    promote=_difference,
    strides=elementwise_of_two,
)
def _rsub_number(input: Array, other: Number, alpha: Number) -> Any:
    return _scaled(operator.sub, other.astype(input.dtype), input, alpha)


@overloaded(
    method=False,
    signatures=("Tensor input, Tensor other, *, Number alpha = 1", "Tensor input, Number other, Number alpha = 1"),
    out=NOT_TAKEN,
)
def rsub(input: Array, other: Operand, *, alpha: Number = 1) -> Choice:
    """The difference ``other - alpha * input``, element by element.

    Source: `torch.rsub <https://docs.pytorch.org/docs/stable/generated/torch.rsub.html>`_.
    """
    return (_rsub if isinstance(other, Tensor) else _rsub_number), input, other, _checked_factor(alpha, input, other)


@operation("NegBackward0", strides=elementwise, inplace=True, out=FOUND, foreach=True)
def neg(input: Array) -> Any:
    """The negative.

    Source: `torch.neg <https://docs.pytorch.org/docs/stable/generated/torch.neg.html>`_.
    """
    if input.dtype == np.bool_:
        raise RuntimeError(NEGATED_BOOL)
    return lax.neg(input)


@composite()
def positive(input: Any) -> Tensor:
    """The tensor itself; an error for booleans.

    Source: `torch.positive <https://docs.pytorch.org/docs/stable/generated/torch.positive.html>`_.
    """
    if input._type.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# -- products and quotients ------------------------------------------------------------------------------------------


@operation(
    "MulBackward0",
    overloads=OF_TENSORS,
    promote=common,
    strides=elementwise,
    in_float32=True,
    inplace=True,
    foreach=True,
)
def mul(input: Operand, other: Operand) -> Any:
    """The product, element by element.

    >>> import fgrad.torch as torch
    >>> torch.mul(torch.tensor([1., 2.]), 10)
    tensor([10., 20.])

    Source: `torch.mul <https://docs.pytorch.org/docs/stable/generated/torch.mul.html>`_.
    """
    check_broadcast(input, other)
    return input * other


# the one overload of ``multiply``, which messages and nodes call ``mul``; ``mul`` itself has its row above
@overload("mul", "MulBackward0", overloads=OF_TENSORS, promote=common, strides=elementwise, in_float32=True)
def _multiply(input: Operand, other: Operand) -> Any:
    check_broadcast(input, other)
    return input * other


def _truncated(x: Any) -> Any:
    return lax.select(x < 0, lax.ceil(x), lax.floor(x))


def _floor_quotient(x: Any, y: Any) -> Any:
    """``floor(x / y)``, exact even where the quotient rounds up to an integer."""
    if not jnp.issubdtype(x.dtype, np.floating):
        return jnp.floor_divide(x, y)
    rest = lax.rem(x, y)
    quotient = (x - rest) / y
    quotient = choose((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    floored = jnp.floor(quotient)
    floored = choose(quotient - floored > 0.5, floored + 1, floored)
    floored = choose(quotient == 0, jnp.copysign(jnp.zeros_like(x), x / y), floored)
    return choose(y == 0, x / y, floored)


def _trunc_quotient(x: Any, y: Any) -> Any:
    quotient = lax.div(x, y)
    return _truncated(quotient) if jnp.issubdtype(x.dtype, np.floating) else quotient


# PyTorch divides again in backward, so the result may be overwritten
@overload(
    "div",
    "DivBackward0",
    overloads=OF_TENSORS,
    promote=inexact,
    strides=elementwise,
    outputs=(),
    in_float32=True,
    constants=(("rounding_mode", None),),
)
def _div(input: Operand, other: Operand) -> Any:
    check_broadcast(input, other)
    return input / other


def _zero_gradients(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return lax.full_like(x, 0), lax.full_like(y, 0)


_quotients = {
    "trunc": derivative(_zero_gradients)(_trunc_quotient),
    "floor": derivative(_zero_gradients)(_floor_quotient),
}


@overload(
    "div",
    "DivBackward2",
    overloads=("Tensor_mode", "Tensor_mode"),
    promote=common,
    strides=elementwise,
    always_saved=("other",),
)
def _div_rounded(input: Operand, other: Operand, rounding_mode: str) -> Any:
    check_kinds(f"div_{rounding_mode}_cpu", "if", input)
    return _quotients[rounding_mode](input, other)


@overloaded(inplace=True, foreach=True)
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Choice:
    """The quotient, element by element; with ``rounding_mode`` "trunc" or "floor" an integer one.

    >>> import fgrad.torch as torch
    >>> torch.div(torch.tensor([7., -7.]), 2, rounding_mode="floor")
    tensor([ 3., -4.])

    Source: `torch.div <https://docs.pytorch.org/docs/stable/generated/torch.div.html>`_.
    """
    if rounding_mode is None:
        return _div, input, other
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    check_divisor(input, other)
    return _div_rounded, input, other, rounding_mode


@overloaded(inplace=True, signatures=(_NUMBER_SECOND[0], "Tensor input, Number other"), numbers=True)
def true_divide(input: Operand, other: Operand) -> Choice:
    """``div`` by another name, without rounding."""
    return _div, input, other


@overload("floor_divide", NOT_IMPLEMENTED, overloads=OF_TENSORS, promote=common, strides=elementwise)
def _floor_divide(input: Operand, other: Operand) -> Any:
    check_kinds("div_floor_cpu", "if", input)
    return _floor_quotient(*aligned(input, other))


@overload(
    "floor_divide", NOT_IMPLEMENTED, overloads=OF_TENSORS, wrapped=_floor_divide, promote=common, strides=elementwise
)
def _floor_divide_number(input: Operand, other: Number) -> Any:
    check_kinds("div_floor_cpu", "if", input)
    return _floor_quotient(input, lax.full_like(input, other.astype(input.dtype)))


@overload(
    "floor_divide", NOT_IMPLEMENTED, overloads=OF_TENSORS, wrapped=_floor_divide, promote=common, strides=elementwise
)
def _floor_divide_into(input: Number, other: Array) -> Any:
    check_kinds("div_floor_cpu", "if", other)
    return _floor_quotient(lax.full_like(other, input.astype(other.dtype)), other)


@overloaded(inplace=True, signatures=(_NUMBER_SECOND[0], "Tensor input, Number other"), numbers=True)
def floor_divide(input: Operand, other: Operand) -> Choice:
    """The quotient rounded down, which has no derivative in PyTorch.

    Source: `torch.floor_divide <https://docs.pytorch.org/docs/stable/generated/torch.floor_divide.html>`_.
    """
    check_divisor(input, other)
    if isinstance(input, Tensor) == isinstance(other, Tensor):
        return _floor_divide, input, other
    return (_floor_divide_number if isinstance(input, Tensor) else _floor_divide_into), input, other


@overload("mul", "MulBackward1", overloads=OF_TENSORS, promote=common, strides=elementwise)
def _scaled_by(input: Array, other: Number) -> Any:
    """The product with a number, as PyTorch's composite functions call it."""
    return input * other.astype(input.dtype)


@overload("add", "AddBackward1", overloads=OF_TENSORS, promote=common, strides=elementwise)
def _shifted_by(input: Array, other: Number) -> Any:
    """The sum with a number, as PyTorch's composite functions call it."""
    return input + other.astype(input.dtype)


scaled_by: Any = _scaled_by
shifted_by: Any = _shifted_by


# -- remainders ------------------------------------------------------------------------------------------------------


@derivative(lambda ct, out, x, y: (ct, -ct * _quotients["floor"](x, y)))
def _remainder(x: Any, y: Any) -> Any:
    """The remainder with the sign of the divisor."""
    check_kinds("remainder_cpu", "if", x)
    rest = lax.rem(x, y)
    return choose((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@derivative(lambda ct, out, x, y: (ct, -ct * _quotients["trunc"](x, y)))
def _fmod(x: Any, y: Any) -> Any:
    """The remainder with the sign of the dividend."""
    check_kinds("fmod_cpu", "if", x)
    return lax.rem(x, y)


@overload("remainder", "RemainderBackward1", overloads=BY_OPERAND, promote=common, strides=elementwise, outputs=())
def _remainder_tensors(input: Operand, other: Operand) -> Any:
    return _remainder(input, other)


@overload(
    "remainder",
    "RemainderBackward0",
    overloads=BY_OPERAND,
    wrapped=_remainder_tensors,
    promote=common,
    strides=elementwise,
)
def _remainder_number(input: Array, other: Number) -> Any:
    return _remainder(input, other.astype(input.dtype))


@overload(
    "remainder", NOT_IMPLEMENTED, overloads=BY_OPERAND, wrapped=_remainder_tensors, promote=common, strides=elementwise
)
def _remainder_into(input: Number, other: Array) -> Any:
    return _remainder(input.astype(other.dtype), other)


@overloaded(inplace=True, signatures=(_NUMBER_SECOND[0], "Number self, Tensor other", _NUMBER_SECOND[1]))
def remainder(input: Operand, other: Operand) -> Choice:
    """The remainder of floor division, with the sign of ``other``.

    >>> import fgrad.torch as torch
    >>> torch.remainder(torch.tensor([-3., 3.]), 2)
    tensor([1., 1.])

    Source: `torch.remainder <https://docs.pytorch.org/docs/stable/generated/torch.remainder.html>`_.
    """
    check_divisor(input, other)
    if not isinstance(input, Tensor):
        return _remainder_into, input, other
    return (_remainder_tensors if isinstance(other, Tensor) else _remainder_number), input, other


@overload("fmod", "FmodBackward1", overloads=BY_OPERAND, promote=common, strides=elementwise, outputs=())
def _fmod_tensors(input: Array, other: Operand) -> Any:
    return _fmod(input, other)


@overload("fmod", "FmodBackward0", overloads=BY_OPERAND, wrapped=_fmod_tensors, promote=common, strides=elementwise)
def _fmod_number(input: Array, other: Number) -> Any:
    return _fmod(input, other.astype(input.dtype))


@overloaded(inplace=True, signatures=_NUMBER_SECOND)
def fmod(input: Array, other: Operand) -> Choice:
    """The remainder of division rounded towards zero, with the sign of ``input``.

    Source: `torch.fmod <https://docs.pytorch.org/docs/stable/generated/torch.fmod.html>`_.
    """
    check_divisor(input, other)
    return (_fmod_tensors if isinstance(other, Tensor) else _fmod_number), input, other


add_alias("negative", "neg")

overloaded(
    inplace=True,
    name="subtract",
    signatures=(
        "Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None",
        "Tensor input, Number other, Number alpha = 1",
    ),
    numbers=True,
)(chooser_of(sub))

overloaded(
    inplace=True,
    name="divide",
    signatures=(
        _NUMBER_SECOND[0],
        "Tensor input, Tensor other, *, str rounding_mode, Tensor out = None",
        "Tensor input, Number other",
        "Tensor input, Number other, *, str rounding_mode",
    ),
    numbers=True,
)(chooser_of(div))


@overloaded(inplace=True, signatures=(_NUMBER_SECOND[0], "Tensor input, Number other"), numbers=True)
def multiply(input: Operand, other: Operand) -> Choice:
    """``mul`` by another name."""
    return _multiply, input, other
