"""Rules for cumulative sums, products, extrema and log-sum-exps along an axis.

The cotangents of products obey a recurrence, ``r_i = ct_i + decay_i r_{i+1}``, which an associative scan solves; so
there is no division by an entry, which may be zero.  Log-sum-exps and extrema are scanned again with their tangents
beside them, which shares ties and treats infinities as JAX does.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from fgrad.rules.arithmetic import constant, won
from fgrad.rules.kinds import General, Linear, define


def _shifted(x: Any, axis: int, reverse: bool, fill: float) -> Any:
    """Entry ``i + 1`` (``i - 1`` if ``reverse``) at each place ``i``, and ``fill`` at the end that runs out."""
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (1, -1, 0) if reverse else (-1, 1, 0)
    return lax.pad(x, constant(fill, x), config)


def products_before(products: Any, axis: int, reverse: bool) -> Any:
    """From cumulative products, which include the entry of their own place, those that do not."""
    return _shifted(products, axis, not reverse, 1)


def _recurrence(values: Any, decay: Any, axis: int, reverse: bool) -> Any:
    """``r`` with ``r_i = values_i + decay_i r_{i+1}`` (``r_{i-1}`` if ``reverse``)."""

    def compose(first: Any, then: Any) -> Any:
        (a, b), (c, d) = first, then
        return lax.mul(a, c), lax.add(lax.mul(b, c), d)

    return lax.associative_scan(compose, (decay, values), reverse=not reverse, axis=axis)[1]


def _scanned(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Forward mode by a scan of pairs of a value and its tangent."""

    def jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool, **_: Any) -> Any:
        (t,) = tangents
        return lax.associative_scan(combine, (x, t), reverse=reverse, axis=axis)[1]

    return jvp


# -- sums -------------------------------------------------------------------------------------------------------------

define("cumsum", Linear(lambda ct, x, *, axis, reverse, **_: (lax.cumsum(ct, axis, not reverse),)))


# -- products ---------------------------------------------------------------------------------------------------------


def _cumprod(ct: Any, out: Any, x: Any, *, axis: int, reverse: bool, **_: Any) -> Any:
    # out_j = (product before i) * x_i * (product after i, up to j)
    after = _recurrence(ct, _shifted(x, axis, reverse, 0), axis, reverse)
    return (lax.mul(products_before(out, axis, reverse), after),)


define("cumprod", General(vjp=_cumprod))


# -- log-sum-exps -----------------------------------------------------------------------------------------------------


def _add_exponentials(first: Any, then: Any) -> Any:
    (x, t), (y, s) = first, then
    out = jax.numpy.logaddexp(x, y)
    return out, lax.add(lax.mul(t, _weight(x, out)), lax.mul(s, _weight(y, out)))


def _weight(x: Any, total: Any) -> Any:
    """``exp(x - total)``: 1 of infinity, and of two that are negative NaN, as in JAX."""
    infinite = lax.eq(x, constant(math.inf, x))
    return lax.exp(lax.select(infinite, lax.full_like(x, 0), lax.sub(x, total)))


define("cumlogsumexp", General(jvp=_scanned(_add_exponentials)))


# -- extrema ----------------------------------------------------------------------------------------------------------


def _extrema(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def combine(first: Any, then: Any) -> Any:
        (x, t), (y, s) = first, then
        return choose(x, y), lax.add(won(t, x, y, choose), won(s, y, x, choose))

    return _scanned(combine)


define("cummax", General(jvp=_extrema(lax.max)))

define("cummin", General(jvp=_extrema(lax.min)))
