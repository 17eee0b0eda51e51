"""Absolute values, signs, and neighbouring numbers."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.operation.traits import BY_OPERAND
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.write.inplace import apply_inplace
from fgrad.torch.ops.table.broadcasting import aligned, choose, common, derivative, inexact
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import BOOLEAN, FOUND, exact
from fgrad.torch.ops.table.overloads import Choice, add_alias, overload, overloaded
from fgrad.torch.ops.table.table import Array, Number, Operand, composite, operation, operation_of


def _direction(x: Any) -> Any:
    """The sign, 0 for NaN; for a complex number, the number of modulus 1 in its direction."""
    if kind(x) == "b":
        return x
    return choose(lax.ne(x, x), 0, lax.sign(x)) if kind(x) == "f" else lax.sign(x)


def _abs_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    if kind(x) == "c":
        return (lax.complex(ct, lax.full_like(ct, 0)) * lax.conj(_direction(x)),)
    return (ct * _direction(x),)


@derivative(_abs_pullback)
def _modulus(x: Any) -> Any:
    if kind(x) == "c":
        # infinite if a part is, though the other be NaN
        infinite = jnp.isinf(lax.real(x)) | jnp.isinf(lax.imag(x))
        return choose(infinite, math.inf, lax.abs(x))
    return lax.abs(x)


@operation("AbsBackward0", strides=elementwise, out=FOUND, foreach=True)
def abs(input: Array) -> Any:
    """The absolute values; of complex numbers, their moduli.

    >>> import fgrad.torch as torch
    >>> torch.abs(torch.tensor([-1., 2.]))
    tensor([1., 2.])

    Source: `torch.abs <https://docs.pytorch.org/docs/stable/generated/torch.abs.html>`_.
    """
    check_kinds("abs_cpu", "ifc", input)
    return _modulus(input) if kind(input) in "fc" else jnp.abs(input)


@composite()
def abs_(input: Array) -> Tensor:
    """``abs`` in place."""
    if input._type.dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return apply_inplace(operation_of(abs), (input,))


add_alias("absolute", "abs")


@operation("SignBackward0", strides=elementwise, inplace=True, out=FOUND, foreach=True)
def sign(input: Array) -> Any:
    """The signs: -1, 0 or 1.

    Source: `torch.sign <https://docs.pytorch.org/docs/stable/generated/torch.sign.html>`_.
    """
    if kind(input) == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    return _direction(input)


@operation("SgnBackward0", strides=elementwise, inplace=True, always_saved=("self", "result"), out=FOUND)
def sgn(input: Array) -> Any:
    """The signs; of complex numbers, the numbers of modulus 1 in their direction.

    Source: `torch.sgn <https://docs.pytorch.org/docs/stable/generated/torch.sgn.html>`_.
    """
    return _direction(input)


@operation(strides=elementwise, out=BOOLEAN)
def signbit(input: Array) -> Any:
    """Whether the sign is negative, including that of -0.

    Source: `torch.signbit <https://docs.pytorch.org/docs/stable/generated/torch.signbit.html>`_.
    """
    if kind(input) == "c":
        raise NotImplementedError("signbit is not implemented for complex tensors.")
    if kind(input) == "f":
        return jnp.signbit(input)
    return lax.full_like(input, False, np.bool_) if kind(input) == "b" else input < 0


def _copysign_pullback(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return ct * choose(x == 0, 0, out / x), lax.full_like(y, 0)


@derivative(_copysign_pullback)
def _copysign(x: Any, y: Any) -> Any:
    return jnp.copysign(x, y)


@overload(
    "copysign",
    "CopysignBackward0",
    overloads=BY_OPERAND,
    promote=inexact,
    strides=elementwise,
    always_saved=("result",),
)
def _copysign_tensor(input: Array, other: Operand) -> Any:
    check_kinds("copysign_cpu", "f", input)
    return _copysign(input, other)


@overload(
    "copysign",
    "CopysignBackward1",
    overloads=BY_OPERAND,
    wrapped=_copysign_tensor,
    promote=inexact,
    strides=elementwise,
)
def _copysign_number(input: Array, other: Number) -> Any:
    check_kinds("copysign_cpu", "f", input)
    return _copysign(input, other.astype(input.dtype))


@overloaded(
    inplace=True,
    signatures=(
        "Tensor input, Tensor other, *, Tensor out = None",
        "Tensor input, Number other, *, Tensor out = None",
    ),
)
def copysign(input: Array, other: Operand) -> Choice:
    """The absolute values of ``input`` with the signs of ``other``.

    Source: `torch.copysign <https://docs.pytorch.org/docs/stable/generated/torch.copysign.html>`_.
    """
    return (_copysign_tensor if isinstance(other, Tensor) else _copysign_number), input, other


@operation(
    NOT_IMPLEMENTED,
    strides=elementwise,
    inplace=True,
    out=exact("heaviside is not yet implemented for tensors with different dtypes."),
)
def heaviside(input: Array, values: Array) -> Any:
    """The step function: 0, ``values``, or 1 where ``input`` is negative, zero, or positive.

    Source: `torch.heaviside <https://docs.pytorch.org/docs/stable/generated/torch.heaviside.html>`_.
    """
    if "c" in (kind(input), kind(values)):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    x, at_zero = aligned(input, values)
    return choose(x == 0, at_zero, (x > 0).astype(x.dtype))


def _nextafter_pullback(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return choose(x == y, 0, ct), lax.full_like(y, 0)


@derivative(_nextafter_pullback)
def _nextafter(x: Any, y: Any) -> Any:
    return lax.nextafter(x, y)


@operation("NextafterBackward0", promote=common, strides=elementwise, inplace=True)
def nextafter(input: Array, other: Array) -> Any:
    """The next representable number from ``input`` towards ``other``.

    Source: `torch.nextafter <https://docs.pytorch.org/docs/stable/generated/torch.nextafter.html>`_.
    """
    check_kinds("nextafter_cpu", "f", input)
    return _nextafter(input, other)
