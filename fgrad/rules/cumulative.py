"""Rules for cumulative sums, products, extrema and log-sum-exps along an axis.

The cotangents of products and of log-sum-exps obey a recurrence, ``r_i = ct_i + decay_i r_{i+1}``, which an
associative scan solves; so there is neither a division by an entry, which may be zero, nor an exponential that
overflows.  Extrema are scanned again with their tangents beside them, which shares ties as JAX does.
"""

import math
from collections.abc import Callable
from typing import Any

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


# -- sums -------------------------------------------------------------------------------------------------------------

define("cumsum", Linear(lambda ct, x, *, axis, reverse, **_: (lax.cumsum(ct, axis, not reverse),)))


# -- products ---------------------------------------------------------------------------------------------------------


def _cumprod(ct: Any, out: Any, x: Any, *, axis: int, reverse: bool, **_: Any) -> Any:
    # out_j = (product before i) * x_i * (product after i, up to j)
    after = _recurrence(ct, _shifted(x, axis, reverse, 0), axis, reverse)
    return (lax.mul(products_before(out, axis, reverse), after),)


define("cumprod", General(vjp=_cumprod))


# -- log-sum-exps -----------------------------------------------------------------------------------------------------


def _cumlogsumexp(ct: Any, out: Any, x: Any, *, axis: int, reverse: bool, **_: Any) -> Any:
    # d out_j / d x_i = exp(x_i - out_j) = exp(x_i - out_i) exp(out_i - out_{i+1}) ... exp(out_{j-1} - out_j)
    decay = _exp_difference(out, _shifted(out, axis, reverse, math.inf))
    return (lax.mul(_exp_difference(x, out), _recurrence(ct, decay, axis, reverse)),)


def _exp_difference(x: Any, y: Any) -> Any:
    """``exp(x - y)``, and 1 where both are the same infinity."""
    difference = lax.sub(x, y)
    return lax.exp(lax.select(lax.eq(x, y), lax.full_like(difference, 0), difference))


define("cumlogsumexp", General(vjp=_cumlogsumexp))


# -- extrema ----------------------------------------------------------------------------------------------------------


def _extrema(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def combine(first: Any, then: Any) -> Any:
        (x, t), (y, s) = first, then
        return choose(x, y), lax.add(won(t, x, y, choose), won(s, y, x, choose))

    def jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool, **_: Any) -> Any:
        (t,) = tangents
        return lax.associative_scan(combine, (x, t), reverse=reverse, axis=axis)[1]

    return jvp


define("cummax", General(jvp=_extrema(lax.max)))

define("cummin", General(jvp=_extrema(lax.min)))
