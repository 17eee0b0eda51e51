"""Rules for reductions: sums, products, extrema, the generic ``reduce``, and those with integer results.

A sum is linear.  An extremum hands the cotangent to the entries that attain it, in equal parts.  A product hands
to each entry the product of the others, found without division so that zeros do no harm.
"""

import math
from collections.abc import Sequence
from typing import Any

from jax import lax

from fgrad import errors
from fgrad.jaxcore import closed_parts, typeof
from fgrad.jaxtypes import explicit_sharding
from fgrad.rules.arithmetic import sum_to
from fgrad.rules.cumulative import products_before
from fgrad.rules.kinds import RULES, Elementwise, General, Linear, Zero, define


def _spread(value: Any, x: Any, axes: Sequence[int]) -> Any:
    """Repeat a reduced ``value`` along the ``axes`` that were reduced from ``x``."""
    kept = tuple(d for d in range(x.ndim) if d not in axes)
    return lax.broadcast_in_dim(value, x.shape, kept, out_sharding=explicit_sharding(typeof(x)))


# -- sums -------------------------------------------------------------------------------------------------------------


def _reduce_sum(ct: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    return (_spread(ct, x, axes),)


define("reduce_sum", Linear(_reduce_sum))


# -- extrema ----------------------------------------------------------------------------------------------------------


def _reduce_extremum(ct: Any, out: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    chosen = lax.eq(x, _spread(out, x, axes))
    count = lax.reduce_sum(lax.convert_element_type(chosen, "int32"), axes)
    # Divided while small.  Where the extremum is NaN nothing is chosen, and ct / 0 * 0 passes the NaN on.
    share = lax.div(ct, lax.convert_element_type(count, ct.dtype))
    return (lax.mul(_spread(share, x, axes), lax.convert_element_type(chosen, ct.dtype)),)


define("reduce_max reduce_min", General(vjp=_reduce_extremum))


# -- products ---------------------------------------------------------------------------------------------------------


def _reduce_prod(ct: Any, out: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    # Bring the reduced axes together as one leading axis.
    order = (*axes, *(d for d in range(x.ndim) if d not in axes))
    moved = lax.transpose(x, order)
    flat = lax.reshape(moved, (math.prod(moved.shape[: len(axes)]), *moved.shape[len(axes) :]))
    others = lax.mul(_others_before(flat, reverse=False), _others_before(flat, reverse=True))
    slope = lax.transpose(lax.reshape(others, moved.shape), tuple(order.index(d) for d in range(x.ndim)))
    return (lax.mul(_spread(ct, x, axes), slope),)


def _others_before(x: Any, reverse: bool) -> Any:
    return products_before(lax.cumprod(x, 0, reverse), 0, reverse)


define("reduce_prod", General(vjp=_reduce_prod))


# -- any reducer ------------------------------------------------------------------------------------------------------

_REDUCERS: dict[str, Any] = {
    # the reducer itself, the reduction with it, and the cotangent of what was reduced
    "add": (lax.add, lax.reduce_sum, lambda ct, out, x, axes: _reduce_sum(ct, x, axes=axes)),
    "mul": (lax.mul, lax.reduce_prod, lambda ct, out, x, axes: _reduce_prod(ct, out, x, axes=axes)),
    "max": (lax.max, lax.reduce_max, lambda ct, out, x, axes: _reduce_extremum(ct, out, x, axes=axes)),
    "min": (lax.min, lax.reduce_min, lambda ct, out, x, axes: _reduce_extremum(ct, out, x, axes=axes)),
}


def reducer(reduction_name: str, jaxpr: Any) -> tuple[Any, tuple[Any, Any], Any, Any]:
    """What the jaxpr of a reducer ``(x, y) -> f(x, y)`` consists of, if that is one known operation.

    Returns the operation, its two slopes, the reduction with it, and the cotangent of what that reduces.

    Raises:
      UndefinedDerivativeError: it is anything else.
    """
    _, _, invars, eqns, outvars = closed_parts(jaxpr)
    if len(eqns) == 1 and len(invars) == 2 and list(eqns[0].outvars) == list(outvars):
        name = eqns[0].primitive.name
        rule = RULES.get(name)
        if name in _REDUCERS and isinstance(rule, Elementwise) and {*eqns[0].invars} == {*invars}:
            combine, reduction, pull = _REDUCERS[name]
            left, right = rule.scales
            return combine, (left, right), reduction, pull
    raise errors.undefined(
        reduction_name,
        "its computation is none of lax.add, lax.mul, lax.max and lax.min on one array. Way out: write the reduction "
        "with jax.lax.reduce or jax.lax.associative_scan.",
    )


def _reduce(cts: Any, outs: Any, *ins: Any, jaxpr: Any, dimensions: Any, **_: Any) -> Any:
    _, (left, right), reduction, pull = reducer("reduce", jaxpr)
    x, start = ins
    (ct,), (out,) = cts, outs
    total = reduction(x, dimensions)
    (ct_x,) = pull(right(ct, out, start, total), total, x, dimensions)
    return ct_x, sum_to(left(ct, out, start, total), start)


define("reduce", General(vjp=_reduce))


# -- integer results --------------------------------------------------------------------------------------------------

define("argmax argmin reduce_and reduce_or reduce_xor", Zero("integer-valued"))
