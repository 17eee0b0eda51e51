"""Rules for the parts of complex numbers: ``real``, ``imag``, ``complex``, ``conj``, and for ``abs`` and ``sign``.

These are not complex-differentiable, only real-linear or real-differentiable.  A cotangent is the plain transpose,
as in JAX: ``ct`` pairs with ``t`` as ``real(ct * t)``, with nothing conjugated.  Hence the transpose of ``imag``
is ``ct -> -i ct``, and that of ``conj`` is ``conj``.
"""

from typing import Any

import jax
import numpy as np
from jax import lax

from fgrad.rules.arithmetic import constant, sum_to
from fgrad.rules.kinds import General, Linear, OfComplex, define


def _is_complex(dtype: Any) -> bool:
    return jax.numpy.issubdtype(dtype, np.complexfloating)


# -- linear over the real numbers -------------------------------------------------------------------------------------

define("real", Linear(lambda ct, x: (lax.complex(ct, constant(0, ct)),)))

define("imag", Linear(lambda ct, x: (lax.complex(constant(0, ct), lax.neg(ct)),)))

define("complex", Linear(lambda ct, x, y: (sum_to(lax.real(ct), x), sum_to(lax.neg(lax.imag(ct)), y))))

define("conj", Linear(lambda ct, x, *, input_dtype: (lax.conj(ct) if _is_complex(input_dtype) else lax.real(ct),)))


# -- modulus and direction --------------------------------------------------------------------------------------------


def _conjugate_direction(x: Any, modulus: Any) -> Any:
    """``conj(x) / abs(x)``, and 0 at 0."""
    # Not by lax.sign, which JAX's own transformations take for constant.
    divisor = lax.select(lax.eq(modulus, constant(0, modulus)), lax.full_like(modulus, 1), modulus)
    return lax.div(lax.conj(x), lax.complex(divisor, constant(0, divisor)))


def _abs_vjp(ct: Any, out: Any, x: Any) -> Any:
    if _is_complex(x.dtype):
        return (lax.mul(lax.complex(ct, constant(0, ct)), _conjugate_direction(x, out)),)
    return (_signed(ct, x),)


def _abs_jvp(tangents: Any, out: Any, x: Any) -> Any:
    (t,) = tangents
    if _is_complex(x.dtype):
        return lax.real(lax.mul(t, _conjugate_direction(x, out)))
    return _signed(t, x)


def _signed(t: Any, x: Any) -> Any:
    # At 0 the slope is 1, as in JAX.
    return lax.select(lax.ge(x, constant(0, x)), t, lax.neg(t))


# Both modes, because transposing the real one would turn a single select into two and a sum.
define("abs", General(vjp=_abs_vjp, jvp=_abs_jvp))


def _sign(ct: Any, out: Any, x: Any) -> Any:
    # With x = r exp(i a): sign(x) = exp(i a), whose differential i exp(i a) da has da = imag(conj(out) dx) / r.
    modulus = lax.abs(x)
    at_zero = lax.eq(modulus, constant(0, modulus))
    turn = lax.div(lax.imag(lax.mul(out, ct)), lax.select(at_zero, lax.full_like(modulus, 1), modulus))
    return (lax.mul(lax.conj(out), lax.complex(constant(0, turn), turn)),)


define("sign", OfComplex(vjp=_sign))
