"""Rules for random numbers: the bits are constants; what they are made into has the derivative of its formula."""

from typing import Any

import jax
import numpy as np
from jax import lax

from fgrad.rules.kinds import Elementwise, Undefined, Zero, define

define(
    "random_seed random_split random_fold_in random_bits random_wrap random_unwrap random_clone "
    "threefry2x32 threefry4x32 philox2x32 philox4x32 iota_2x32_shape rng_bit_generator",
    Zero("random bits"),
)

define(
    "rng_uniform",
    Undefined("lax.rng_uniform has no derivative in its bounds (nor in JAX); draw between 0 and 1, and scale the draw"),
)


def _random_gamma(t: Any, out: Any, key: Any, a: Any, *, log_space: bool, **_: Any) -> Any:
    # The sampler rejects, so its formula tells nothing.  The derivative is that of the quantile of the sample,
    # which is held fixed as `a` moves: - (d cdf / d a) / density.
    if not log_space:
        return lax.mul(t, lax.random_gamma_grad(a, out))  # type: ignore[call-arg]
    smallest = np.asarray(jax.numpy.finfo(out.dtype).tiny, out.dtype)
    sample = lax.max(lax.exp(out), smallest)
    return lax.mul(t, lax.div(lax.random_gamma_grad(a, sample), sample))  # type: ignore[call-arg]


define("random_gamma", Elementwise(None, _random_gamma))
