"""Modified Bessel functions of the first kind, with derivatives; the other Bessel functions are in ``bessel.py``."""

from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.torch.ops.elementwise.special import special
from fgrad.torch.ops.table.broadcasting import choose, derivative, in_float, inexact
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.table import Array, operation


def _not_at_zero(x: Any) -> tuple[Any, Any]:
    """Where ``x`` is not tiny, and ``x`` with tiny numbers replaced by the machine epsilon."""
    epsilon = jnp.finfo(x.dtype).eps
    nonzero = jnp.abs(x) > epsilon
    return nonzero, choose(nonzero, x, epsilon)


def _i1_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    nonzero, safe = _not_at_zero(x)
    return (ct * choose(nonzero, _i0(safe) - out * (1 / safe), 0.5),)


def _i1e_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    nonzero, safe = _not_at_zero(x)
    return (ct * choose(nonzero, _i0e(safe) - out * (jnp.sign(safe) + 1 / safe), 0.5),)


@derivative(lambda ct, out, x: (ct * _i1(x),))
def _i0(x: Any) -> Any:
    return in_float(lambda x: jnp.exp(jnp.abs(x)) * lax.bessel_i0e(x), x)


@derivative(lambda ct, out, x: (ct * (_i1e(x) - jnp.sign(x) * out),))
def _i0e(x: Any) -> Any:
    return lax.bessel_i0e(x)


@derivative(_i1_pullback)
def _i1(x: Any) -> Any:
    return in_float(lambda x: jnp.exp(jnp.abs(x)) * lax.bessel_i1e(x), x)


@derivative(_i1e_pullback)
def _i1e(x: Any) -> Any:
    return lax.bessel_i1e(x)


@operation("I0Backward0", promote=inexact, strides=elementwise, inplace=True)
def i0(input: Array) -> Any:
    """The modified Bessel function of the first kind of order 0.

    Source: `torch.i0 <https://docs.pytorch.org/docs/stable/special.html#torch.special.i0>`_.
    """
    check_kinds("i0_vml_cpu", "f", input)
    return _i0(input)


@special("i0e", "SpecialI0EBackward0")
def i0e(input: Array) -> Any:
    """``i0(x) * exp(-abs(x))``.

    Source: `torch.special.i0e <https://docs.pytorch.org/docs/stable/special.html#torch.special.i0e>`_.
    """
    check_kinds("i0e_cpu", "f", input)
    return _i0e(input)


@special("i1", "SpecialI1Backward0")
def i1(input: Array) -> Any:
    """The modified Bessel function of the first kind of order 1.

    Source: `torch.special.i1 <https://docs.pytorch.org/docs/stable/special.html#torch.special.i1>`_.
    """
    check_kinds("i1_cpu", "f", input)
    return _i1(input)


@special("i1e", "SpecialI1EBackward0")
def i1e(input: Array) -> Any:
    """``i1(x) * exp(-abs(x))``.

    Source: `torch.special.i1e <https://docs.pytorch.org/docs/stable/special.html#torch.special.i1e>`_.
    """
    check_kinds("i1e_cpu", "f", input)
    return _i1e(input)


bessel_i0: Any = _i0
bessel_i1: Any = _i1
