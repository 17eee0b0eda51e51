"""Samples of cumulative sums, products, extrema and log-sum-exps."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(13)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _distinct(*shape: int) -> Any:
    """Numbers well apart from each other, in no order."""
    return 0.3 * _rng.permutation(np.arange(float(np.prod(shape)))).reshape(shape) - 1


def _along(scan: Callable[..., Any], axis: int, reverse: bool = False) -> Callable[..., Any]:
    return lambda x: scan(x, axis, reverse)


def _samples(name: str, scan: Callable[..., Any], draw: Callable[..., Any]) -> list[Sample]:
    return [
        Sample(name, _along(scan, 0), (draw(5),)),
        Sample(name, _along(scan, 0, True), (draw(5),), "reverse"),
        Sample(name, _along(scan, 1), (draw(2, 3, 2),), "middle axis"),
        Sample(name, _along(scan, 2, True), (draw(2, 1, 4),), "last axis, reverse"),
        Sample(name, _along(scan, 0), (draw(1, 2),), "one entry"),
        Sample(name, _along(scan, 0), (draw(3, 0),), "empty"),
        Sample(name, _along(scan, 1), (draw(3, 0),), "along nothing"),
    ]


_INFINITE = np.array([[-np.inf, -np.inf, -np.inf, 1.0], [-np.inf, 1.0, 0.5, -np.inf], [1.0, 2.0, -np.inf, 2.0]])
_TIED = np.array([1.0, 1.0, 0.5, 1.0, 2.0, 2.0, 0.0, 2.0])

SAMPLES: list[Sample] = [
    *_samples("cumsum", lax.cumsum, _real),
    Sample("cumsum", _along(lax.cumsum, 0), (_complex(3),), "complex"),
    *_samples("cumprod", lax.cumprod, _real),
    Sample("cumprod", _along(lax.cumprod, 0), (_complex(3),), "complex"),
    Sample("cumprod", _along(lax.cumprod, 0), (np.array([2.0, 0.0, 3.0, 0.0, 1.5]),), "zeros", order=3),
    Sample("cumprod", _along(lax.cumprod, 0, True), (np.array([2.0, 0.0, 3.0]),), "zero, reverse", order=3),
    *_samples("cumlogsumexp", lax.cumlogsumexp, _real),
    Sample("cumlogsumexp", _along(lax.cumlogsumexp, 0), (np.array([-900.0, 800.0, 799.0, -3.0]),), "far out"),
    Sample("cumlogsumexp", _along(lax.cumlogsumexp, 0), (_INFINITE,), "infinities", smooth=False),
    *_samples("cummax", lax.cummax, _distinct),
    Sample("cummax", _along(lax.cummax, 0), (_TIED,), "ties", smooth=False),
    Sample("cummax", _along(lax.cummax, 0), (np.array([1.0, np.nan, 2.0]),), "not a number", smooth=False),
    *_samples("cummin", lax.cummin, _distinct),
    Sample("cummin", _along(lax.cummin, 0, True), (_TIED,), "ties, reverse", smooth=False),
]
