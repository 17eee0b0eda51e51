"""Powers and roots, and the decomposition into mantissa and exponent."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise, elementwise_of_tensors
from fgrad.mutable.operation.traits import BY_OPERAND
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, complex128, dtype as Dtype, float64
from fgrad.torch import return_types
from fgrad.torch.ops.elementwise import branch_cuts
from fgrad.torch.ops.table.broadcasting import check_broadcast, choose, common, derivative, inexact
from fgrad.torch.ops.table.kinds import check_kinds, is_complex, is_integer, kind
from fgrad.torch.ops.table.numbers import check_fits
from fgrad.torch.ops.table.outputs import cast, exact
from fgrad.torch.ops.table.overloads import Choice, no_match, overload, overloaded, types_of
from fgrad.torch.ops.table.table import NUMBERS, Array, Number, Operand, composite, operation, write_outputs

# -- powers ----------------------------------------------------------------------------------------------------------

#: exponents for which PyTorch multiplies or takes a root; each has a plan of its own
_SPECIAL = (-2, -1, -0.5, 0, 0.5, 1, 2, 3)


def _power_of(exponent: float) -> Any:
    """The function that raises to a constant power by products or roots; its pull-back reads the base."""

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        if exponent == 0:
            return (lax.full_like(x, 0),)
        return (ct * (exponent * (x if exponent == 2 else _constant_power(x, exponent - 1))),)

    @derivative(pullback)
    def pow(x: Any) -> Any:
        if kind(x) == "f" and exponent in (0.5, -0.5):
            return lax.sqrt(x) if exponent > 0 else lax.rsqrt(x)
        if exponent == 0:
            return lax.full_like(x, 1)
        product = x
        for _ in range(int(abs(exponent)) - 1):
            product = product * x
        return product if exponent > 0 else 1 / product

    return pow


def _constant_power(x: Any, exponent: float) -> Any:
    """``x ** exponent`` with a constant exponent."""
    real = exponent.real  # 2 + 0j is 2
    if exponent in _SPECIAL and (float(real).is_integer() or kind(x) == "f"):
        return _power_of(real)(x)
    return _pow(x, lax.full_like(x, exponent))


def _base_gradient(ct: Any, x: Any, exponent: Any) -> Any:
    # the factor is also zeroed, so that the transpose is zero there too
    slope = choose(exponent == 0, 0, exponent * _pow(x, exponent - 1))
    return choose(exponent == 0, 0, ct * slope)


def _pow_pullback(ct: Any, out: Any, x: Any, exponent: Any) -> tuple[Any, Any]:
    if kind(x) == "c":
        is_zero = (x == 0) & (lax.imag(exponent) == 0) & (lax.real(exponent) >= 0)
    else:
        is_zero = (x == 0) & (exponent >= 0)
    slope = choose(is_zero, 0, out * jnp.log(x))
    return _base_gradient(ct, x, exponent), choose(is_zero, 0, ct * slope)


@derivative(_pow_pullback)
def _pow(x: Any, exponent: Any) -> Any:
    power = jnp.power(x, exponent)
    # by logarithms a power of a complex zero would be NaN
    return choose((x == 0) & (lax.real(exponent) > 0), 0, power) if kind(x) == "c" else power


def _integer_power(x: Any, exponent: Any) -> Any:
    """Integers to integer powers; a negative power is 0 except that of 1 and -1."""
    odd = exponent % 2 != 0
    inverse = choose(x == 1, 1, choose(x == -1, choose(odd, -1, 1), 0)) if jnp.iinfo(x.dtype).min else (x == 1)
    return choose(exponent < 0, inverse.astype(x.dtype), _natural_power(x, jnp.maximum(exponent, 0)))


def _natural_power(x: Any, exponent: Any) -> Any:
    """Integers to powers from 0 on, wrapped around at each product; ``jnp.power`` takes six bits of the exponent."""

    def squared(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        product, square, rest = state
        return choose(rest % 2 == 1, product * square, product), square * square, rest // 2

    x, exponent = jnp.broadcast_arrays(x, exponent)
    return lax.while_loop(lambda state: jnp.any(state[2] > 0), squared, (lax.full_like(x, 1), x, exponent))[0]


def _any_power(x: Any, exponent: Any) -> Any:
    if kind(x) in "bi":
        check_kinds("pow", "i", x)
        check_broadcast(x, exponent)
        return _integer_power(x, exponent)
    return _pow(x, exponent)


@overload(
    "pow", "PowBackward0", overloads=BY_OPERAND, promote=common, strides=elementwise_of_tensors, always_saved=("self",)
)
def _pow_number(input: Array, exponent: Number, special: float | None) -> Any:
    if kind(input) == "b" and kind(exponent) == "b":
        return input | ~exponent
    if special is None or kind(input) == "b" or (kind(input) == "i" and special < 0):
        return _any_power(input, exponent.astype(input.dtype))
    return _constant_power(input, special)


@overload(
    "pow",
    "PowBackward1",
    overloads=BY_OPERAND,
    promote=common,
    strides=elementwise,
    always_saved=("self", "exponent", "result"),
)
def _pow_tensors(input: Array, exponent: Array) -> Any:
    return _any_power(input, exponent)


@overload(
    "pow",
    "PowBackward2",
    overloads=BY_OPERAND,
    promote=common,
    strides=elementwise_of_tensors,
    always_saved=("exponent",),
)
def _pow_of_number(input: Number, exponent: Array) -> Any:
    return _any_power(input.astype(exponent.dtype), exponent)


def _check_power(base: Any, exponent: Any) -> None:
    if all(x._type.dtype is bool_ if isinstance(x, Tensor) else isinstance(x, bool) for x in (base, exponent)):
        if isinstance(exponent, Tensor):
            raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    elif isinstance(base, Tensor) and is_integer(base) and exponent.__class__ is int and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


_SIGNATURES = (
    "Tensor input, Tensor exponent, *, Tensor out = None",
    "Number self, Tensor exponent, *, Tensor out = None",
    "Tensor input, Number exponent, *, Tensor out = None",
)


@overloaded(inplace=True, signatures=_SIGNATURES)
def pow(input: Operand, exponent: Operand) -> Choice:
    """``input`` to the power of ``exponent``, element by element.

    >>> import fgrad.torch as torch
    >>> torch.pow(torch.tensor([1., 2., 3.]), 2)
    tensor([1., 4., 9.])

    Raises:
      RuntimeError: integers are raised to a negative integer.

    Source: `torch.pow <https://docs.pytorch.org/docs/stable/generated/torch.pow.html>`_.
    """
    _check_power(input, exponent)
    if not isinstance(input, Tensor):
        return _pow_of_number, input, exponent
    if isinstance(exponent, Tensor):
        return _pow_tensors, input, exponent
    if exponent in _SPECIAL:
        return _pow_number, input, exponent, exponent
    if not isinstance(exponent, complex):
        check_fits(exponent, input)
    return _pow_number, input, exponent, None


@composite()
def square(input: Any, *, out: Any = None) -> Tensor:
    """The square.

    Source: `torch.square <https://docs.pytorch.org/docs/stable/generated/torch.square.html>`_.
    """
    return pow(input, 2, out=out)


@composite(function=True)
def square_(input: Any) -> Tensor:
    """``square`` in place."""
    return input.pow_(2)


def _double_dtype(*operands: Any) -> Dtype:
    return complex128 if any(is_complex(x) for x in operands) else float64


def _as_dtype(x: Any, dtype: Dtype) -> Any:
    return x.to(dtype) if isinstance(x, Tensor) else x


@composite(
    out=exact("the output given to float_power has dtype {got} but the operation's result requires dtype {want}")
)
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """``input`` to the power of ``exponent`` in double precision.

    Source: `torch.float_power <https://docs.pytorch.org/docs/stable/generated/torch.float_power.html>`_.
    """
    if not all(isinstance(x, (Tensor, *NUMBERS)) for x in (input, exponent)):
        raise TypeError(no_match("float_power", types_of((input, exponent)), _SIGNATURES))
    dtype = _double_dtype(input, exponent)
    power = pow(_as_dtype(input, dtype), _as_dtype(exponent, dtype))
    return power if out is None else write_outputs("float_power", None, (input, exponent), power, out)


@composite(function=False)
def float_power_(input: Any, exponent: Any) -> Tensor:
    """``float_power`` in place.

    Raises:
      RuntimeError: the tensor is not of double precision.
    """
    dtype = _double_dtype(input, exponent)
    if input._type.dtype is not dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input._type.dtype.scalar_name} but the operation's result "
            f"requires dtype {dtype.scalar_name}"
        )
    return input.pow_(_as_dtype(exponent, dtype))


# -- roots -----------------------------------------------------------------------------------------------------------


@operation("SqrtBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def sqrt(input: Array) -> Any:
    """The square root.

    Source: `torch.sqrt <https://docs.pytorch.org/docs/stable/generated/torch.sqrt.html>`_.
    """
    return branch_cuts.sqrt(input)


@operation("RsqrtBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def rsqrt(input: Array) -> Any:
    """One over the square root.

    Source: `torch.rsqrt <https://docs.pytorch.org/docs/stable/generated/torch.rsqrt.html>`_.
    """
    return lax.rsqrt(input)


@derivative(lambda ct, out, x: (-ct * (out * out),))
def _reciprocal(x: Any) -> Any:
    return 1 / x


@operation("ReciprocalBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def reciprocal(input: Array) -> Any:
    """One over the elements.

    Source: `torch.reciprocal <https://docs.pytorch.org/docs/stable/generated/torch.reciprocal.html>`_.
    """
    return _reciprocal(input)


@derivative(lambda ct, out, x, y: (ct * (x / out), ct * (y / out)))
def _hypot(x: Any, y: Any) -> Any:
    return jnp.hypot(x, y)


@operation("HypotBackward0", promote=common, strides=elementwise, inplace=True)
def hypot(input: Array, other: Array) -> Any:
    """The length of the hypotenuse, ``sqrt(input**2 + other**2)``, without overflow.

    Source: `torch.hypot <https://docs.pytorch.org/docs/stable/generated/torch.hypot.html>`_.
    """
    check_kinds("hypot_cpu", "f", input, other)
    return _hypot(input, other)


# -- mantissa and exponent -------------------------------------------------------------------------------------------


def _ldexp_pullback(ct: Any, out: Any, x: Any, exponent: Any) -> tuple[Any, Any]:
    return ct * jnp.exp2(exponent), ct * out * np.asarray(math.log(2), out.dtype)


@derivative(_ldexp_pullback)
def _ldexp(x: Any, exponent: Any) -> Any:
    return x * jnp.power(np.asarray(2, x.dtype), exponent)


@operation(
    "LdexpBackward0",
    promote=inexact,
    strides=elementwise,
    inplace=True,
    always_saved=("result",),
    out=cast("ldexp can't be cast to the desired output type {got}"),
)
def ldexp(input: Array, other: Array) -> Any:
    """``input * 2**other``.

    Source: `torch.ldexp <https://docs.pytorch.org/docs/stable/generated/torch.ldexp.html>`_.
    """
    return _ldexp(input, other)


@derivative(lambda ct, out, x, exponent: (ct / jnp.exp2(exponent), lax.full_like(exponent, 0)))
def _mantissa(x: Any, exponent: Any) -> Any:
    return jnp.frexp(x)[0]


@operation(
    "FrexpBackward0",
    strides=elementwise,
    name="_frexp",
    outputs=("mantissa", "exponent"),
    method=False,
    function=False,
    out=exact("torch.frexp() expects {output} to have dtype {c_want} but got {c_got}", "mantissa", "exponent"),
)
def _frexp(input: Array) -> Any:
    if kind(input) != "f":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    exponent = jnp.frexp(input)[1].astype(np.int32)
    return _mantissa(input, exponent.astype(input.dtype)), exponent


@composite()
def frexp(input: Array, *, out: Any = None) -> Any:
    """Mantissas, with absolute values in [1/2, 1), and exponents to base 2.

    >>> import fgrad.torch as torch
    >>> torch.frexp(torch.tensor([3., -0.25])).exponent
    tensor([ 2, -1], dtype=torch.int32)

    Source: `torch.frexp <https://docs.pytorch.org/docs/stable/generated/torch.frexp.html>`_.
    """
    return return_types.frexp(_frexp(input, out=out))
