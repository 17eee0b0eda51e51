"""Samples of the collectives.

Each argument has a leading axis, ``fun`` takes one member of it, and is called under ``vmap(..., axis_name=AXIS)``.
The derivative is taken inside of the ``vmap``, since outside of it no collective is left.
"""

from typing import Any

import numpy as np
from attrs import evolve
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(6)

AXIS = "i"


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _all_to_all(split: int, concat: int, tiled: bool = False) -> Any:
    return lambda x: lax.all_to_all(x, AXIS, split, concat, tiled=tiled)


_WITH_JAX: list[Sample] = [
    Sample("psum", lambda x: lax.psum(x, AXIS), (_real(4, 3),)),
    Sample("psum", lambda x: lax.psum(x, AXIS), (_complex(4),), "0-d complex"),
    Sample("psum", lambda x: lax.psum(x, AXIS), (_real(4, 0),), "empty"),
    Sample("psum", lambda x: lax.psum(x, (AXIS, 0)), (_real(4, 3, 2),), "a positional axis too"),
    Sample("all_gather", lambda x: lax.all_gather(x, AXIS), (_real(4, 3),)),
    Sample("all_gather", lambda x: lax.all_gather(x, AXIS), (_complex(4),), "0-d complex"),
    Sample("all_gather", lambda x: lax.all_gather(x, AXIS, axis=1), (_real(4, 3, 2),), "axis 1"),
    Sample("all_gather", lambda x: lax.all_gather(x, AXIS, axis=1, tiled=True), (_real(4, 3, 2),), "axis 1, tiled"),
    Sample("reduce_scatter", lambda x: lax.psum_scatter(x, AXIS), (_real(4, 4, 2),)),
    Sample("reduce_scatter", lambda x: lax.psum_scatter(x, AXIS), (_complex(4, 4),), "to 0-d, complex"),
    Sample("reduce_scatter", lambda x: lax.psum_scatter(x, AXIS, scatter_dimension=1), (_real(4, 2, 4),), "axis 1"),
    Sample("reduce_scatter", lambda x: lax.psum_scatter(x, AXIS, tiled=True), (_real(4, 8, 2),), "tiled"),
    Sample("all_to_all", _all_to_all(0, 0), (_real(3, 3, 2),)),
    Sample("all_to_all", _all_to_all(0, 0, tiled=True), (_real(3, 6, 2),), "tiled"),
    Sample("all_to_all", _all_to_all(1, 0, tiled=True), (_real(3, 2, 6),), "1 to 0, tiled"),
    Sample("ppermute", lambda x: lax.ppermute(x, AXIS, [(0, 2), (1, 0), (2, 1)]), (_real(3, 2),)),
    Sample("ppermute", lambda x: lax.ppermute(x, AXIS, [(0, 1), (1, 0)]), (_complex(2),), "0-d complex"),
    Sample("axis_index", lambda x: lax.mul(x, lax.axis_index(AXIS).astype("float64")), (_real(3),)),
]

_BEYOND_JAX: list[Sample] = [
    # JAX's transpose of all_to_all has the wrong shape where it moves an axis.
    Sample("all_to_all", _all_to_all(0, 1), (_complex(3, 3, 2),), "0 to 1, complex"),
    Sample("all_to_all", _all_to_all(2, 0), (_real(3, 2, 4, 3),), "2 to 0"),
    Sample("pmax", lambda x: lax.pmax(x, AXIS), (_real(4, 3),)),
    Sample("pmax", lambda x: lax.pmax(x, AXIS), (np.array([1.0, 2.0, 2.0]),), "ties", smooth=False),
    Sample("pmin", lambda x: lax.pmin(x, AXIS), (_real(4),), "0-d"),
    Sample("pmin", lambda x: lax.pmin(x, (AXIS, 0)), (_real(4, 3),), "a positional axis too"),
]

SAMPLES: list[Sample] = [
    *(evolve(sample, axis=AXIS) for sample in _WITH_JAX),
    *(evolve(sample, axis=AXIS, in_jax=False) for sample in _BEYOND_JAX),
]

NOT_RUN: dict[str, str] = {
    "pbroadcast": "XLA has it on GPUs only, and its vmap rule fails in JAX",
    "pbroadcast_dynamic": "XLA has it on GPUs only",
    "ragged_all_to_all": "XLA has it on GPUs and TPUs only, and JAX does not map it",
    "psum_invariant": "met under shard_map only",
    "pvary": "met under shard_map only",
    "all_gather_invariant": "met under shard_map only",
}
"""Primitives with a rule that no sample can call here."""
