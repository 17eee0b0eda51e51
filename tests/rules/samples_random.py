"""Samples of random numbers.

The derivative of a gamma sample is that of its quantile, not that of the sampler (``smooth=False``), and is computed
by a loop without a reverse mode (``order=1``).
"""

from typing import Any

import jax
import numpy as np
from jax import lax

from tests.rules.samples import Sample

_SHAPES = np.array([0.3, 1.0, 4.5])


def _key() -> Any:
    return jax.random.key(0)


SAMPLES: list[Sample] = [
    Sample("random_gamma", lambda a: jax.random.gamma(_key(), a, dtype="float64"), (_SHAPES,), order=1, smooth=False),
    Sample(
        "random_gamma", lambda a: jax.random.gamma(_key(), a, (2, 3), "float64"), (_SHAPES,), "many", order=1,
        smooth=False,
    ),
    Sample(
        "random_gamma", lambda a: jax.random.gamma(_key(), a, dtype="float64"), (np.array(2.0),), "0-d", order=1,
        smooth=False,
    ),
    Sample(
        "random_gamma", lambda a: jax.random.loggamma(_key(), a, dtype="float64"), (_SHAPES,), "log", order=1,
        smooth=False,
    ),
    Sample("random_bits", lambda x: lax.mul(x, jax.random.uniform(_key(), (3,), "float64")), (np.ones(3),)),
    Sample("random_seed", lambda x: lax.mul(x, jax.random.uniform(jax.random.key(3), (3,), "float64")), (np.ones(3),)),
    Sample(
        "random_split",
        lambda x: lax.mul(x, jax.random.uniform(jax.random.split(_key())[0], (3,), "float64")), (np.ones(3),),
    ),
    Sample(
        "random_fold_in",
        lambda x: lax.mul(x, jax.random.uniform(jax.random.fold_in(_key(), 1), (3,), "float64")), (np.ones(3),),
    ),
    Sample(
        "rng_bit_generator",
        lambda x: lax.mul(x, lax.rng_bit_generator(np.arange(4, dtype="uint32"), (3,))[1].astype("float64")),
        (np.ones(3),), smooth=False,
    ),
]  # fmt: skip
