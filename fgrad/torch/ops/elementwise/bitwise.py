"""Logical and bitwise operations, shifts, and common divisors and multiples."""

from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.operation.traits import BY_OPERAND
from fgrad.torch.ops.table.broadcasting import aligned, choose, common
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.outputs import FOUND
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Operand, operation

_SIGNATURES = (
    "Tensor input, Tensor other, *, Tensor out = None",
    "Number self, Tensor other",
    "Tensor input, Number other, *, Tensor out = None",
)


def _truth(x: Any) -> Any:
    return x if kind(x) == "b" else x != 0


@operation(strides=elementwise, inplace=True, auxiliary=("result",), unrecorded=True)
def logical_and(input: Array, other: Array) -> Any:
    """Whether both elements are true (not zero).

    Source: `torch.logical_and <https://docs.pytorch.org/docs/stable/generated/torch.logical_and.html>`_.
    """
    x, y = aligned(input, other)
    return _truth(x) & _truth(y)


@operation(strides=elementwise, inplace=True, auxiliary=("result",), unrecorded=True)
def logical_or(input: Array, other: Array) -> Any:
    """Whether an element is true (not zero).

    Source: `torch.logical_or <https://docs.pytorch.org/docs/stable/generated/torch.logical_or.html>`_.
    """
    x, y = aligned(input, other)
    return _truth(x) | _truth(y)


@operation(strides=elementwise, inplace=True, auxiliary=("result",), unrecorded=True)
def logical_xor(input: Array, other: Array) -> Any:
    """Whether exactly one element is true (not zero).

    Source: `torch.logical_xor <https://docs.pytorch.org/docs/stable/generated/torch.logical_xor.html>`_.
    """
    x, y = aligned(input, other)
    return _truth(x) ^ _truth(y)


@operation(strides=elementwise, inplace=True, auxiliary=("result",), unrecorded=True)
def logical_not(input: Array) -> Any:
    """Whether elements are zero.

    Source: `torch.logical_not <https://docs.pytorch.org/docs/stable/generated/torch.logical_not.html>`_.
    """
    return ~_truth(input)


# -- bits ------------------------------------------------------------------------------------------------------------


@operation(strides=elementwise, inplace=True, out=FOUND)
def bitwise_not(input: Array) -> Any:
    """All bits inverted; for booleans, their negation.

    Source: `torch.bitwise_not <https://docs.pytorch.org/docs/stable/generated/torch.bitwise_not.html>`_.
    """
    check_kinds("bitwise_not_cpu", "bi", input)
    return lax.bitwise_not(input)


def _left_shifted(x: Any, by: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    return choose((by < 0) | (by >= bits), 0, lax.shift_left(x, jnp.clip(by, 0, bits - 1)))


def _right_shifted(x: Any, by: Any) -> Any:
    last = 8 * x.dtype.itemsize - 1
    shift = lax.shift_right_arithmetic if jnp.issubdtype(x.dtype, np.signedinteger) else lax.shift_right_logical
    outside = (by < 0) | (by > last)
    if shift is lax.shift_right_logical:
        return choose(outside, 0, shift(x, jnp.clip(by, 0, last)))
    return shift(x, choose(outside, last, by))


@overload("bitwise_and", None, overloads=BY_OPERAND, promote=common, strides=elementwise)
def _bitwise_and(input: Operand, other: Operand) -> Any:
    check_kinds("bitwise_and_cpu", "bi", input)
    return lax.bitwise_and(*aligned(input, other))


@overloaded(inplace=True, signatures=_SIGNATURES)
def bitwise_and(input: Operand, other: Operand) -> Choice:
    """The bitwise "and".

    Source: `torch.bitwise_and <https://docs.pytorch.org/docs/stable/generated/torch.bitwise_and.html>`_.
    """
    return _bitwise_and, input, other


@overload("bitwise_or", None, overloads=BY_OPERAND, promote=common, strides=elementwise)
def _bitwise_or(input: Operand, other: Operand) -> Any:
    check_kinds("bitwise_or_cpu", "bi", input)
    return lax.bitwise_or(*aligned(input, other))


@overloaded(inplace=True, signatures=_SIGNATURES)
def bitwise_or(input: Operand, other: Operand) -> Choice:
    """The bitwise "or".

    Source: `torch.bitwise_or <https://docs.pytorch.org/docs/stable/generated/torch.bitwise_or.html>`_.
    """
    return _bitwise_or, input, other


@overload("bitwise_xor", None, overloads=BY_OPERAND, promote=common, strides=elementwise)
def _bitwise_xor(input: Operand, other: Operand) -> Any:
    check_kinds("bitwise_xor_cpu", "bi", input)
    return lax.bitwise_xor(*aligned(input, other))


@overloaded(inplace=True, signatures=_SIGNATURES)
def bitwise_xor(input: Operand, other: Operand) -> Choice:
    """The bitwise "exclusive or".

    Source: `torch.bitwise_xor <https://docs.pytorch.org/docs/stable/generated/torch.bitwise_xor.html>`_.
    """
    return _bitwise_xor, input, other


@overload("bitwise_left_shift", None, overloads=("Tensor", "Tensor_Scalar"), promote=common, strides=elementwise)
def _bitwise_left_shift(input: Operand, other: Operand) -> Any:
    check_kinds("lshift_cpu", "i", input)
    return _left_shifted(*aligned(input, other))


@overloaded(inplace=True, signatures=_SIGNATURES)
def bitwise_left_shift(input: Operand, other: Operand) -> Choice:
    """``input`` with its bits shifted to the left.

    Source: `torch.bitwise_left_shift <https://docs.pytorch.org/docs/stable/generated/torch.bitwise_left_shift.html>`_.
    """
    return _bitwise_left_shift, input, other


@overload("bitwise_right_shift", None, overloads=("Tensor", "Tensor_Scalar"), promote=common, strides=elementwise)
def _bitwise_right_shift(input: Operand, other: Operand) -> Any:
    check_kinds("rshift_cpu", "i", input)
    return _right_shifted(*aligned(input, other))


@overloaded(inplace=True, signatures=_SIGNATURES)
def bitwise_right_shift(input: Operand, other: Operand) -> Choice:
    """``input`` with its bits shifted to the right.

    Source: `torch.bitwise_right_shift <https://docs.pytorch.org/docs/stable/generated/torch.bitwise_right_shift.html>`_.
    """
    return _bitwise_right_shift, input, other


# -- divisors and multiples ------------------------------------------------------------------------------------------


@operation(promote=common, strides=elementwise, inplace=True)
def gcd(input: Array, other: Array) -> Any:
    """The greatest common divisor.

    Source: `torch.gcd <https://docs.pytorch.org/docs/stable/generated/torch.gcd.html>`_.
    """
    check_kinds("gcd_cpu", "i", input)
    return jnp.gcd(*aligned(input, other))


@operation(promote=common, strides=elementwise, inplace=True)
def lcm(input: Array, other: Array) -> Any:
    """The least common multiple.

    Source: `torch.lcm <https://docs.pytorch.org/docs/stable/generated/torch.lcm.html>`_.
    """
    check_kinds("lcm_cpu", "i", input)
    return jnp.lcm(*aligned(input, other))
