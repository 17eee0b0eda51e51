"""Functions of ``jax.numpy`` that go straight to their primitive where nothing is to be converted.

``jax.numpy`` traces a program of its own for each new type of its operands, for one to four milliseconds.  A network's
first step meets some hundred types.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp


def _pair(primitive: Callable[..., Any], function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def combine(x: Any, y: Any) -> Any:
        same = x.dtype == y.dtype != np.bool_ and x.weak_type == y.weak_type
        direct = same and (x.shape == y.shape or () in (x.shape, y.shape))
        return (primitive if direct else function)(x, y)

    return combine


add, subtract = _pair(lax.add, jnp.add), _pair(lax.sub, jnp.subtract)
multiply = _pair(lax.mul, jnp.multiply)


def divide(x: Any, y: Any) -> Any:
    """The quotient, a floating-point number also of integers."""
    return (_quotient if x.dtype.kind in "fc" else jnp.true_divide)(x, y)


_quotient = _pair(lax.div, jnp.true_divide)


def total(x: Any, axes: Sequence[int], keepdims: bool = False) -> Any:
    """The sum over axes, in the type of the elements."""
    axes = tuple([axis % x.ndim for axis in axes])
    if x.dtype not in (np.float32, np.float64):
        # without a type, JAX sums half precision in single and rounds once, as PyTorch does, but would widen integers
        return jnp.sum(x, axes, dtype=x.dtype if x.dtype.kind in "biu" else None, keepdims=keepdims)
    summed = lax.reduce_sum(x, axes)
    return lax.expand_dims(summed, axes) if keepdims else summed
