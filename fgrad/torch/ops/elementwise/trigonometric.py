"""Trigonometric and hyperbolic functions, their inverses, and angles in degrees."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.torch.ops.elementwise.branch_cuts import COMPUTED, OPPOSITE, SAME, with_cuts
from fgrad.torch.ops.table.broadcasting import choose, derivative, in_float, inexact, rounded_once
from fgrad.torch.ops.table.kinds import check_kinds, kind
from fgrad.torch.ops.table.overloads import add_alias, twin_with_node
from fgrad.torch.ops.table.table import Array, operation


@operation("SinBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def sin(input: Array) -> Any:
    """The sine.

    Source: `torch.sin <https://docs.pytorch.org/docs/stable/generated/torch.sin.html>`_.
    """
    return lax.sin(input)


@operation("CosBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def cos(input: Array) -> Any:
    """The cosine.

    Source: `torch.cos <https://docs.pytorch.org/docs/stable/generated/torch.cos.html>`_.
    """
    return lax.cos(input)


@operation("TanBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def tan(input: Array) -> Any:
    """The tangent.

    Source: `torch.tan <https://docs.pytorch.org/docs/stable/generated/torch.tan.html>`_.
    """
    return lax.tan(input)


def _with_cuts(function: Any, pullback: Any, real: int, imag: int = SAME) -> Any:
    return rounded_once(with_cuts(function, pullback, real, imag), pullback)


_asin = _with_cuts(lax.asin, lambda ct, out, x: (ct * lax.rsqrt(1 - x * x),), SAME)
_acos = _with_cuts(lax.acos, lambda ct, out, x: (-ct * lax.rsqrt(1 - x * x),), COMPUTED, OPPOSITE)
_atan = _with_cuts(lax.atan, lambda ct, out, x: (ct / (x * x + 1),), SAME)
_asinh = _with_cuts(lax.asinh, lambda ct, out, x: (ct * lax.rsqrt(x * x + 1),), SAME)
# on the cut, PyTorch's derivative is that of the upper side: ``x + 1`` makes ``0j`` of ``-0j``
_acosh_of_complex = with_cuts(lax.acosh, lambda ct, out, x: (ct / (lax.sqrt(x - 1) * lax.sqrt(x + 1)),), COMPUTED)
_atanh = _with_cuts(lax.atanh, lambda ct, out, x: (ct / (1 - x * x),), SAME)


@operation("AsinBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def asin(input: Array) -> Any:
    """The inverse of the sine.

    Source: `torch.asin <https://docs.pytorch.org/docs/stable/generated/torch.asin.html>`_.
    """
    return _asin(input)


@operation("AcosBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def acos(input: Array) -> Any:
    """The inverse of the cosine.

    Source: `torch.acos <https://docs.pytorch.org/docs/stable/generated/torch.acos.html>`_.
    """
    return _acos(input)


@operation("AtanBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def atan(input: Array) -> Any:
    """The inverse of the tangent.

    Source: `torch.atan <https://docs.pytorch.org/docs/stable/generated/torch.atan.html>`_.
    """
    return _atan(input)


@operation("SinhBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def sinh(input: Array) -> Any:
    """The hyperbolic sine.

    Source: `torch.sinh <https://docs.pytorch.org/docs/stable/generated/torch.sinh.html>`_.
    """
    return lax.sinh(input)


@operation("CoshBackward0", promote=inexact, strides=elementwise, inplace=True, foreach=True)
def cosh(input: Array) -> Any:
    """The hyperbolic cosine.

    Source: `torch.cosh <https://docs.pytorch.org/docs/stable/generated/torch.cosh.html>`_.
    """
    return lax.cosh(input)


_tanh = rounded_once(lax.tanh, lambda ct, out, x: (in_float(lambda ct, out: ct * (1 - out * out), ct, out),))


@operation(
    "TanhBackward0",
    promote=inexact,
    strides=elementwise,
    inplace=True,
    backward_node="TanhBackwardBackward0",
    foreach=True,
)
def tanh(input: Array) -> Any:
    """The hyperbolic tangent.

    Source: `torch.tanh <https://docs.pytorch.org/docs/stable/generated/torch.tanh.html>`_.
    """
    return _tanh(input)


@operation("AsinhBackward0", promote=inexact, strides=elementwise)
def asinh(input: Array) -> Any:
    """The inverse of the hyperbolic sine.

    Source: `torch.asinh <https://docs.pytorch.org/docs/stable/generated/torch.asinh.html>`_.
    """
    return _asinh(input)


@derivative(lambda ct, out, x: (ct * lax.rsqrt(x * x - 1),))
def _acosh(x: Any) -> Any:
    return in_float(lax.acosh, x)


@operation("AcoshBackward0", promote=inexact, strides=elementwise)
def acosh(input: Array) -> Any:
    """The inverse of the hyperbolic cosine.

    Source: `torch.acosh <https://docs.pytorch.org/docs/stable/generated/torch.acosh.html>`_.
    """
    # below -1, where real numbers have no value, PyTorch's derivative has the opposite sign
    return _acosh_of_complex(input) if jnp.iscomplexobj(input) else _acosh(input)


@operation("AtanhBackward0", promote=inexact, strides=elementwise)
def atanh(input: Array) -> Any:
    """The inverse of the hyperbolic tangent.

    Source: `torch.atanh <https://docs.pytorch.org/docs/stable/generated/torch.atanh.html>`_.
    """
    return _atanh(input)


for _name in ("asinh", "acosh", "atanh"):
    twin_with_node(_name, f"{_name.title()}Backward1", f"inplace version of {_name}")

for _name in ("sin", "cos", "tan"):
    add_alias(f"arc{_name}", f"a{_name}")
    add_alias(f"arc{_name}h", f"a{_name}h")


def _atan2_pullback(ct: Any, out: Any, y: Any, x: Any) -> tuple[Any, Any]:
    squared = y * y + x * x
    inverse = choose(squared == 0, 0, 1 / squared)  # the gradient at the origin is zero, and the tangent is not
    return ct * (x * inverse), ct * (-y * inverse)


def _atan2_pushforward(tangents: Any, out: Any, y: Any, x: Any) -> Any:
    y_tangent, x_tangent = tangents
    upwards = 0 if y_tangent is None else x * y_tangent
    return (upwards if x_tangent is None else upwards - y * x_tangent) / (y * y + x * x)


@derivative(_atan2_pullback, _atan2_pushforward)
def _atan2(y: Any, x: Any) -> Any:
    return lax.atan2(y, x)


@operation("Atan2Backward0", promote=inexact, strides=elementwise, inplace=True)
def atan2(input: Array, other: Array) -> Any:
    """The angle of the point with ordinate ``input`` and abscissa ``other``.

    Source: `torch.atan2 <https://docs.pytorch.org/docs/stable/generated/torch.atan2.html>`_.
    """
    check_kinds("atan2_cpu", "f", input)
    return _atan2(input, other)


add_alias("arctan2", "atan2")


def _sinc_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    scaled = x * np.asarray(math.pi, x.dtype)
    squared = x * scaled
    # the quotient is finite everywhere, so that its transpose is too
    slope = (scaled * jnp.cos(scaled) - jnp.sin(scaled)) / choose(squared == 0, 1, squared)
    return (choose(squared == 0, 0, ct * slope),)


@derivative(_sinc_pullback)
def _sinc(x: Any) -> Any:
    def quotient(x: Any) -> Any:
        scaled = x * np.asarray(math.pi, x.dtype)
        return choose(x == 0, 1, jnp.sin(scaled) / scaled)

    return in_float(quotient, x)


@operation("SincBackward0", promote=inexact, strides=elementwise, inplace=True)
def sinc(input: Array) -> Any:
    """``sin(pi x) / (pi x)``, and 1 at 0.

    Source: `torch.sinc <https://docs.pytorch.org/docs/stable/generated/torch.sinc.html>`_.
    """
    return _sinc(input)


def _check_real(function: str, array: Any) -> None:
    if kind(array) == "c":
        raise RuntimeError(f"{function} is not supported for complex tensors.")


def _turned(factor: float) -> Any:
    def times(x: Any) -> Any:
        return x * np.asarray(factor, x.dtype)

    return rounded_once(times, lambda ct, out, x: (in_float(times, ct),))


@operation("Deg2RadBackward0", promote=inexact, strides=elementwise, inplace=True)
def deg2rad(input: Array) -> Any:
    """Degrees as radians.

    Source: `torch.deg2rad <https://docs.pytorch.org/docs/stable/generated/torch.deg2rad.html>`_.
    """
    _check_real("deg2rad", input)
    return _turned(math.pi / 180)(input)


@operation("Rad2DegBackward0", promote=inexact, strides=elementwise, inplace=True)
def rad2deg(input: Array) -> Any:
    """Radians as degrees.

    Source: `torch.rad2deg <https://docs.pytorch.org/docs/stable/generated/torch.rad2deg.html>`_.
    """
    _check_real("rad2deg", input)
    return _turned(180 / math.pi)(input)
