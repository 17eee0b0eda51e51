"""Samples of sorting and of choosing the largest entries."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(15)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _distinct(*shape: int) -> Any:
    """Numbers well apart from each other, in no order."""
    return 0.3 * _rng.permutation(np.arange(float(np.prod(shape)))).reshape(shape) - 1


def _integers(*shape: int) -> Any:
    return _rng.permutation(np.arange(np.prod(shape), dtype=np.int32)).reshape(shape)


def _sort(dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Callable[..., Any]:
    return lambda *xs: lax.sort(xs if len(xs) > 1 else xs[0], dimension, is_stable, num_keys)


_COMPLEX = np.array([1 + 2j, 0.5 - 1j, -2 + 0.5j, 0.3j])

SAMPLES: list[Sample] = [
    Sample("sort", _sort(), (_distinct(5),)),
    Sample("sort", _sort(0), (_distinct(3, 2),), "first axis"),
    Sample("sort", _sort(1, is_stable=False), (_distinct(2, 3, 2),), "middle axis, unstable"),
    Sample("sort", _sort(), (_distinct(0),), "empty"),
    Sample("sort", _sort(), (_distinct(2, 1),), "one entry"),
    Sample("sort", _sort(), (_distinct(4), _real(4)), "key and value"),
    Sample("sort", _sort(0), (_integers(4, 2), _real(4, 2)), "integer key"),
    Sample("sort", _sort(), (_distinct(4), _integers(4)), "integer value"),
    Sample("sort", _sort(num_keys=2), (np.array([1, 0, 1, 0, 1], np.int32), _distinct(5), _real(5)), "two keys"),
    Sample("sort", _sort(num_keys=3), (_distinct(4), _real(4), _real(4)), "keys alone"),
    Sample("sort", _sort(), (_COMPLEX,), "complex"),
    Sample("sort", _sort(), (np.array([2.0, 1.0, 2.0, 1.0]), _real(4)), "ties", smooth=False),
    Sample("top_k", lambda x: lax.top_k(x, 2), (_distinct(4),)),
    Sample("top_k", lambda x: lax.top_k(x, 3), (_distinct(2, 3),), "all"),
    Sample("top_k", lambda x: lax.top_k(x, 2, axis=0), (_distinct(3, 2, 2),), "first axis"),
    Sample("top_k", lambda x: lax.top_k(x, 0), (_distinct(2, 3),), "none"),
    Sample("top_k", lambda x: lax.top_k(x, 2), (_distinct(0, 3),), "empty"),
    Sample("top_k", lambda x: lax.top_k(x, 2), (np.array([1.0, 2.0, 2.0, 2.0]),), "ties", smooth=False),
    Sample("approx_top_k", lambda x: lax.approx_max_k(x, 2), (_distinct(2, 4),)),
    Sample("approx_top_k", lambda x: lax.approx_min_k(x, 2, reduction_dimension=0), (_distinct(4, 2),), "smallest"),
]
