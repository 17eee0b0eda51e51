"""Complex functions with branch cuts. On a cut the sign of a zero says from which side the value is approached.

XLA ignores that sign, so ``sqrt(-1 - 0j)`` would be ``1j``. It is the sign of a part of the result, which is set here.
"""

from collections.abc import Callable
from typing import Any

from jax import lax, numpy as jnp

from fgrad.torch.ops.table.broadcasting import derivative

#: the sign of a part of the result for the argument: that of its same part, the opposite, or whatever was computed
SAME, OPPOSITE, COMPUTED = 1, -1, 0


def with_cuts(function: Callable[..., Any], pullback: Callable[..., Any], real: int, imag: int = SAME) -> Any:
    """A function of one array, and ``function`` where that is real. ``pullback(ct, out, x)`` is for complex ones."""

    @derivative(pullback)
    def of_complex(x: Any) -> Any:
        out = function(x)
        return lax.complex(_signed(lax.real(out), lax.real(x), real), _signed(lax.imag(out), lax.imag(x), imag))

    return lambda x: of_complex(x) if jnp.iscomplexobj(x) else function(x)


def _signed(out: Any, x: Any, sign: int) -> Any:
    return out if sign == COMPUTED else jnp.copysign(out, x if sign == SAME else -x)


sqrt = with_cuts(lax.sqrt, lambda ct, out, x: (ct / (2 * out),), COMPUTED)
