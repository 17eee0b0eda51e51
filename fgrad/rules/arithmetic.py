"""Rules for arithmetic, powers, exponentials and logarithms, comparisons and bitwise operations.

Nearly all are elementwise: one slope per argument.  A slope reads what PyTorch saves: ``exp`` and ``sqrt``
their output, ``log`` and ``pow`` their inputs, ``mul`` the other factor.  Ties and singular points are JAX's.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from fgrad.jaxcore import typeof
from fgrad.jaxtypes import explicit_sharding
from fgrad.rules.kinds import Elementwise, General, Linear, Zero, define


def constant(value: float, like: Any) -> Any:
    """``value`` as a scalar of the dtype of ``like``; binary primitives broadcast it against any shape.

    A NumPy scalar rather than ``lax.full_like``: it enters a recording as a constant, without a node of its own.
    """
    return like.dtype.type(value)


def zeros(like: Any) -> Any:
    """Zeros of the shape and dtype of ``like``, which is not read."""
    return filled(like, 0)


def filled(like: Any, value: Any, dtype: Any = None) -> Any:
    """``value`` in the shape of ``like``, with its dtype if no other is given."""
    return lax.full_like(like, value, dtype, sharding=explicit_sharding(typeof(like)))


def sum_to(ct: Any, x: Any) -> Any:
    """The transpose of broadcasting ``x`` (of lower rank only if 0-d) to the shape of ``ct``."""
    if ct.shape == x.shape:
        return ct
    stretched = [d for d in range(ct.ndim) if not x.shape or x.shape[d] != ct.shape[d]]
    return lax.reshape(lax.reduce_sum(ct, stretched), x.shape)


# -- the four operations ----------------------------------------------------------------------------------------------

define("neg", Elementwise(lambda t, out, x: lax.neg(t)))

define("add add_any", Elementwise(lambda t, out, x, y: t, lambda t, out, x, y: t))

define("sub", Elementwise(lambda t, out, x, y: t, lambda t, out, x, y: lax.neg(t)))


def _product(t: Any, x: Any, y: Any, out: Any, out_dtype: Any) -> Any:
    """The part of ``x`` in the tangent of ``x * y``, or its cotangent."""
    if out_dtype is None:
        return lax.mul(t, y)
    # a tangent comes in the dtype of ``x``, and a cotangent in that of the output
    return lax.mul(t, y, out_dtype=out.dtype if t.dtype == x.dtype else x.dtype)


define(
    "mul",
    Elementwise(
        lambda t, out, x, y, *, out_dtype=None: _product(t, x, y, out, out_dtype),
        lambda t, out, x, y, *, out_dtype=None: _product(t, y, x, out, out_dtype),
    ),
)

# Not x / y**2, which may overflow.  Both factors are there already: t / y is the cotangent of x, x / y the output.
define(
    "div",
    Elementwise(
        lambda t, out, x, y: lax.div(t, y),
        lambda t, out, x, y: lax.neg(lax.mul(lax.div(t, y), lax.div(x, y))),
    ),
)


def _rem_divisor(t: Any, out: Any, x: Any, y: Any) -> Any:
    quotient = lax.div(x, y)
    return lax.neg(lax.mul(t, lax.mul(lax.sign(quotient), lax.floor(lax.abs(quotient)))))


def _rem_dividend(t: Any, out: Any, x: Any, y: Any) -> Any:
    # The slope is 1 almost everywhere, but no remainder of integers is linear.
    return None if jax.numpy.issubdtype(t.dtype, np.integer) else t


define("rem", Elementwise(_rem_dividend, _rem_divisor))


# -- choosing among inputs --------------------------------------------------------------------------------------------


def won(t: Any, this: Any, other: Any, choose: Callable[[Any, Any], Any]) -> Any:
    """``t`` times 1 where ``this`` was chosen, 1/2 at ties, 0 elsewhere (and where either is NaN)."""
    chosen = lax.convert_element_type(lax.eq(this, choose(this, other)), t.dtype)
    # A product, which passes on a ``t`` that is NaN: that is how ``hypot``, scaled by its larger argument, does.
    return lax.mul(t, lax.select(lax.eq(this, other), lax.full_like(t, 0.5), chosen))


define(
    "max",
    Elementwise(
        lambda t, out, x, y: won(t, x, y, lax.max),
        lambda t, out, x, y: won(t, y, x, lax.max),
    ),
)

define(
    "min",
    Elementwise(
        lambda t, out, x, y: won(t, x, y, lax.min),
        lambda t, out, x, y: won(t, y, x, lax.min),
    ),
)


def _where(t: Any, *conditions: Any) -> Any:
    """``t`` where all the conditions (0-d or of its shape) hold, zero elsewhere."""
    holds = conditions[0]
    for condition in conditions[1:]:
        holds = lax.bitwise_and(holds, condition)
    return lax.select(holds, t, zeros(t))


define(
    "clamp",
    Elementwise(
        lambda t, out, low, x, high: _where(t, lax.gt(low, x), lax.lt(low, high)),
        lambda t, out, low, x, high: _where(t, lax.gt(x, low), lax.lt(x, high)),
        lambda t, out, low, x, high: _where(t, lax.lt(high, x)),
    ),
)


def _select_n(ct: Any, which: Any, *cases: Any) -> Any:
    if len(cases) == 1:
        return None, ct
    nothing = zeros(ct)
    if which.dtype == np.bool_:
        return None, lax.select_n(which, ct, nothing), lax.select_n(which, nothing, ct)
    # As XLA does with an index out of range.
    which = lax.clamp(constant(0, which), which, constant(len(cases) - 1, which))
    return None, *(lax.select(lax.eq(which, constant(i, which)), ct, nothing) for i in range(len(cases)))


define("select_n", Linear(_select_n))


# -- powers and roots -------------------------------------------------------------------------------------------------

define("square", Elementwise(lambda t, out, x: lax.mul(t, lax.mul(x, constant(2, x)))))

define("one_minus_square", Elementwise(lambda t, out, x: lax.mul(t, lax.mul(x, constant(-2, x)))))

define("sqrt", Elementwise(lambda t, out, x, **_: lax.div(t, lax.mul(out, constant(2, out)))))

define("cbrt", Elementwise(lambda t, out, x, **_: lax.mul(t, lax.mul(lax.integer_pow(out, -2), constant(1 / 3, out)))))

define("rsqrt", Elementwise(lambda t, out, x, **_: lax.mul(t, lax.mul(lax.integer_pow(out, 3), constant(-0.5, out)))))


def _integer_pow(t: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return zeros(t)
    return t if y == 1 else lax.mul(t, lax.mul(lax.integer_pow(x, y - 1), constant(y, x)))


define("integer_pow", Elementwise(_integer_pow))


def _pow_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    if jax.numpy.issubdtype(y.dtype, np.integer):
        # The exponent -1 is avoided where y is 0: there the slope is 0 even at x = 0.
        lower = lax.sub(lax.select(lax.eq(y, constant(0, y)), lax.full_like(y, 1), y), constant(1, y))
        return lax.mul(t, lax.mul(lax.convert_element_type(y, x.dtype), lax.pow(x, lower)))
    return lax.mul(t, lax.mul(y, lax.pow(x, lax.sub(y, constant(1, y)))))


def _pow_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
    # The slope at a base of 0 counts as 0, which is the limit for a positive exponent.
    base = lax.select(lax.eq(x, constant(0, x)), lax.full_like(x, 1), x)
    return lax.mul(t, lax.mul(lax.log(base), out))


define("pow", Elementwise(_pow_base, _pow_exponent))


def _polynomial(ct: Any, out: Any, x: Any, *coefficients: Any, **_: Any) -> Any:
    # out = c_0 + x (c_1 + x (c_2 + ...)); the slope in x by Horner's scheme too.
    slope = None
    for k in range(len(coefficients) - 1, 0, -1):
        term = lax.mul(coefficients[k], constant(k, x))
        slope = term if slope is None else lax.add(lax.mul(slope, x), term)
    cts = [None if slope is None else sum_to(lax.mul(ct, slope), x)]
    for k, coefficient in enumerate(coefficients):
        ct = ct if k == 0 else lax.mul(ct, x)
        cts.append(sum_to(ct, coefficient))
    return tuple(cts)


define("polynomial", General(vjp=_polynomial))


# -- exponentials and logarithms --------------------------------------------------------------------------------------

_LN2 = math.log(2)

define("exp", Elementwise(lambda t, out, x, **_: lax.mul(t, out)))

define("exp2", Elementwise(lambda t, out, x, **_: lax.mul(t, lax.mul(out, constant(_LN2, out)))))

define("expm1", Elementwise(lambda t, out, x, **_: lax.mul(t, lax.add(out, constant(1, out)))))

define("log", Elementwise(lambda t, out, x, **_: lax.div(t, x)))

define("log2", Elementwise(lambda t, out, x, **_: lax.div(t, lax.mul(x, constant(_LN2, x)))))

define("log1p", Elementwise(lambda t, out, x, **_: lax.div(t, lax.add(x, constant(1, x)))))


# -- piecewise constant -----------------------------------------------------------------------------------------------

# A neighbouring number differs from x by next to nothing: as JAX, the slope in x is 1.
define("nextafter", Elementwise(lambda t, out, x, y: t, None))

define("floor ceil round", Zero())

define("is_finite eq ne ge gt le lt eq_to le_to lt_to", Zero("its values are true and false"))

define(
    "and or xor not shift_left shift_right_arithmetic shift_right_logical clz population_count mulhi",
    Zero("integer-valued"),
)
