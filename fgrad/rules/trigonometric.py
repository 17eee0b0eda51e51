"""Rules for trigonometric and hyperbolic functions and their inverses, and for the logistic function.

The slopes of ``tan``, ``tanh`` and ``logistic`` are polynomials in the output, and read that; the others read the
input.  Each holds on the complex plane too, with the branch cuts of the function itself.
"""

from typing import Any

import jax
import numpy as np
from jax import lax

from fgrad.rules.arithmetic import constant
from fgrad.rules.kinds import Elementwise, define


def _factored(x: Any) -> Any:
    # Near 1 the difference 1 - x * x would lose half of the digits.
    one = constant(1, x)
    return lax.mul(lax.sub(one, x), lax.add(one, x))


def _one_minus_square_by_parts(x: Any) -> Any:
    # The value of the product, but the slope -2 x: that of the product is inf - inf at one and loses digits near 0.
    if jax.numpy.issubdtype(x.dtype, np.complexfloating):
        return _factored(x)
    square = lax.sub(constant(1, x), lax.square(x))
    return lax.add(square, lax.stop_gradient(lax.sub(_factored(x), square)))


#: 1 - x^2 as the primitive that the newer JAX has for it
_primitive = getattr(lax, "one_minus_square", None)

_one_minus_square = _primitive or _one_minus_square_by_parts


def _one_plus_square(x: Any) -> Any:
    return lax.add(lax.square(x), constant(1, x))


# -- circular ---------------------------------------------------------------------------------------------------------

define("sin", Elementwise(lambda t, out, x, *, accuracy=None: lax.mul(t, lax.cos(x, accuracy=accuracy))))

define("cos", Elementwise(lambda t, out, x, *, accuracy=None: lax.neg(lax.mul(t, lax.sin(x, accuracy=accuracy)))))

define("tan", Elementwise(lambda t, out, x, **_: lax.mul(t, _one_plus_square(out))))

define("asin", Elementwise(lambda t, out, x: lax.mul(t, lax.rsqrt(_one_minus_square(x)))))

define("acos", Elementwise(lambda t, out, x: lax.neg(lax.mul(t, lax.rsqrt(_one_minus_square(x))))))

define("atan", Elementwise(lambda t, out, x: lax.div(t, _one_plus_square(x))))


def _norm_square(x: Any, y: Any) -> Any:
    return lax.add(lax.square(x), lax.square(y))


define(
    "atan2",
    Elementwise(
        lambda t, out, y, x: lax.mul(t, lax.div(x, _norm_square(x, y))),
        lambda t, out, y, x: lax.neg(lax.mul(t, lax.div(y, _norm_square(x, y)))),
    ),
)

# -- hyperbolic -------------------------------------------------------------------------------------------------------

define("sinh", Elementwise(lambda t, out, x: lax.mul(t, lax.cosh(x))))

define("cosh", Elementwise(lambda t, out, x: lax.mul(t, lax.sinh(x))))

define("tanh", Elementwise(lambda t, out, x, **_: lax.mul(t, _factored(out))))

define("logistic", Elementwise(lambda t, out, x, **_: lax.mul(t, lax.mul(out, lax.sub(constant(1, out), out)))))

define("asinh", Elementwise(lambda t, out, x: lax.mul(t, lax.rsqrt(_one_plus_square(x)))))


def _acosh(t: Any, out: Any, x: Any) -> Any:
    # Two roots: one root of the product would take the wrong branch on half of the complex plane.
    one = constant(1, x)
    return lax.mul(t, lax.mul(lax.rsqrt(lax.sub(x, one)), lax.rsqrt(lax.add(x, one))))


define("acosh", Elementwise(_acosh))


def _atanh(t: Any, out: Any, x: Any) -> Any:
    if _primitive is not None:
        return lax.div(t, _primitive(x))
    # Two quotients, as in the older JAX: at infinity the slope of a product would be a difference of infinities.
    one = constant(1, x)
    return lax.mul(lax.div(one, lax.add(one, x)), lax.div(t, lax.sub(one, x)))


define("atanh", Elementwise(_atanh))
