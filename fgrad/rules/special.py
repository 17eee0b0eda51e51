"""Rules for the special functions: gamma, zeta and beta functions and their relatives, error and Bessel functions.

Where a derivative with respect to a parameter has no closed form among the lax primitives, asking for it is an
error; a parameter that is merely held costs nothing.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from fgrad import errors
from fgrad.rules.arithmetic import constant
from fgrad.rules.kinds import Elementwise, define


def _unknown(function: str, parameter: str) -> Callable[..., Any]:
    def scale(t: Any, out: Any, *ins: Any, **params: Any) -> Any:
        raise errors.undefined(
            function,
            f"no formula is known here for the derivative with respect to {parameter}. Way out: hold that argument "
            "with jax.lax.stop_gradient.",
        )

    return scale


# -- gamma and zeta ---------------------------------------------------------------------------------------------------

define("lgamma", Elementwise(lambda t, out, x: lax.mul(t, lax.digamma(x))))

define("digamma", Elementwise(lambda t, out, x: lax.mul(t, lax.polygamma(constant(1, x), x))))

define(
    "polygamma",
    Elementwise(
        _unknown("polygamma", "its order"),
        lambda t, out, m, x: lax.mul(t, lax.polygamma(lax.add(m, constant(1, m)), x)),
    ),
)

define(
    "zeta",
    Elementwise(
        _unknown("zeta", "its exponent"),
        lambda t, out, s, q: lax.neg(lax.mul(t, lax.mul(s, lax.zeta(lax.add(s, constant(1, s)), q)))),
    ),
)


# -- incomplete gamma and beta functions ------------------------------------------------------------------------------


def _gamma_density(a: Any, x: Any) -> Any:
    """``x**(a - 1) exp(-x) / gamma(a)``, the derivative of ``igamma(a, x)`` in ``x``."""
    log_power = lax.mul(lax.sub(a, constant(1, a)), lax.log(x))
    return lax.exp(lax.sub(lax.sub(log_power, x), lax.lgamma(a)))


define(
    "igamma",
    Elementwise(
        lambda t, out, a, x: lax.mul(t, lax.igamma_grad_a(a, x)),
        lambda t, out, a, x: lax.mul(t, _gamma_density(a, x)),
    ),
)

define(
    "igammac",
    Elementwise(
        lambda t, out, a, x: lax.neg(lax.mul(t, lax.igamma_grad_a(a, x))),
        lambda t, out, a, x: lax.neg(lax.mul(t, _gamma_density(a, x))),
    ),
)


def _igamma_grad_a_x(t: Any, out: Any, a: Any, x: Any) -> Any:
    # The mixed second derivative of igamma: the density, differentiated in a.
    return lax.mul(t, lax.mul(_gamma_density(a, x), lax.sub(lax.log(x), lax.digamma(a))))


define("igamma_grad_a", Elementwise(_unknown("igamma_grad_a", "a"), _igamma_grad_a_x))


def _betainc_x(t: Any, out: Any, a: Any, b: Any, x: Any) -> Any:
    log_beta = lax.sub(lax.add(lax.lgamma(a), lax.lgamma(b)), lax.lgamma(lax.add(a, b)))
    log_left = lax.mul(lax.sub(a, constant(1, a)), lax.log(x))
    log_right = lax.mul(lax.sub(b, constant(1, b)), lax.log1p(lax.neg(x)))
    return lax.mul(t, lax.exp(lax.sub(lax.add(log_left, log_right), log_beta)))


define("regularized_incomplete_beta", Elementwise(_unknown("betainc", "a"), _unknown("betainc", "b"), _betainc_x))


# -- error functions --------------------------------------------------------------------------------------------------


def _bell(x: Any) -> Any:
    """``2 / sqrt(pi) * exp(-x**2)``"""
    return lax.mul(lax.exp(lax.neg(lax.square(x))), constant(2 / math.sqrt(math.pi), x))


define("erf", Elementwise(lambda t, out, x: lax.mul(t, _bell(x))))

define("erfc", Elementwise(lambda t, out, x, **_: lax.neg(lax.mul(t, _bell(x)))))


def _erf_inv(t: Any, out: Any, x: Any) -> Any:
    # From the input, since that is what PyTorch saves; compiled, erf_inv is still computed once.
    # A product, not a quotient by the bell: at -1 and 1 its derivatives are infinite rather than 0 / 0.
    return lax.mul(t, lax.mul(lax.exp(lax.square(lax.erf_inv(x))), constant(math.sqrt(math.pi) / 2, x)))


define("erf_inv", Elementwise(_erf_inv))


# -- Bessel functions, scaled by exp(-abs(x)) -------------------------------------------------------------------------

define(
    "bessel_i0e",
    Elementwise(lambda t, out, x: lax.mul(t, lax.sub(lax.bessel_i1e(x), lax.mul(lax.sign(x), out)))),
)


def _bessel_i1e(t: Any, out: Any, x: Any) -> Any:
    # out / x tends to 1/2 at 0, where out is 0 and the sign is 0.
    epsilon = lax.full_like(x, jax.numpy.finfo(x.dtype).eps)
    large = lax.gt(lax.abs(x), epsilon)
    safe = lax.select(large, x, epsilon)
    slope = lax.sub(lax.bessel_i0e(safe), lax.mul(out, lax.add(lax.sign(safe), lax.div(constant(1, x), safe))))
    return lax.mul(t, lax.select(large, slope, lax.full_like(x, 0.5)))


define("bessel_i1e", Elementwise(_bessel_i1e))
