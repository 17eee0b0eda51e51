"""Rules for trigonometric and hyperbolic functions and their inverses, and for the logistic function.

The slopes of ``tan``, ``tanh`` and ``logistic`` are polynomials in the output, and read that; the others read the
input.  Each holds on the complex plane too, with the branch cuts of the function itself.
"""

from typing import Any

from jax import lax

from fgrad.rules.arithmetic import constant
from fgrad.rules.kinds import Elementwise, define


def _factored(x: Any) -> Any:
    # Near 1 the difference 1 - x * x would lose half of the digits.
    one = constant(1, x)
    return lax.mul(lax.sub(one, x), lax.add(one, x))


#: 1 - x^2; the newer JAX has a primitive for it, whose own slope -2 x is right at infinity and next to one
_one_minus_square = getattr(lax, "one_minus_square", _factored)


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

define("atanh", Elementwise(lambda t, out, x: lax.div(t, _one_minus_square(x))))
