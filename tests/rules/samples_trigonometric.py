"""Samples of trigonometric and hyperbolic functions, their inverses, and the logistic function."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(7)
_NEW_JAX = hasattr(lax, "log2")


def _samples(name: str, fun: Callable[..., Any], low: float, high: float) -> list[Sample]:
    def draw(*shape: int) -> Any:
        return _rng.uniform(low, high, size=shape)

    # Away from the branch cuts, which lie on the axes.
    quadrants = np.array([0.6 + 0.7j, -0.6 + 0.7j, -0.4 - 0.3j, 1.6 - 1.2j])
    if name == "acosh" and not _NEW_JAX:
        # On the left JAX 0.10 has the sign wrong.
        quadrants = quadrants[[0, 3]]
    return [
        Sample(name, fun, (draw(2, 3),)),
        Sample(name, fun, (draw(),), "0-d"),
        Sample(name, fun, (draw(0, 2),), "empty"),
        Sample(name, fun, (quadrants,), "complex"),
    ]


def _ends() -> list[Sample]:
    """Where the slope is infinite, and at infinity."""
    ends = (np.array([1.0, np.inf]),)
    functions = {"asin": lax.asin, "acos": lax.acos, "atanh": lax.atanh}
    return [Sample(name, fun, ends, "at the ends", smooth=False) for name, fun in functions.items()]


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


SAMPLES: list[Sample] = [
    *_samples("sin", lax.sin, -3, 3),
    *_samples("cos", lax.cos, -3, 3),
    Sample("sin", lambda x: lax.sin(x, accuracy=lax.AccuracyMode.HIGHEST), (_real(3),), "accuracy"),
    Sample("cos", lambda x: lax.cos(x, accuracy=lax.AccuracyMode.HIGHEST), (_real(3),), "accuracy"),
    *_samples("tan", lax.tan, -1.2, 1.2),
    *_samples("asin", lax.asin, -0.9, 0.9),
    *_samples("acos", lax.acos, -0.9, 0.9),
    *_samples("atan", lax.atan, -3, 3),
    *_samples("sinh", lax.sinh, -2, 2),
    *_samples("cosh", lax.cosh, -2, 2),
    *_samples("tanh", lax.tanh, -2, 2),
    *_samples("asinh", lax.asinh, -3, 3),
    *_samples("acosh", lax.acosh, 1.2, 4),
    *_samples("atanh", lax.atanh, -0.9, 0.9),
    *_samples("logistic", lax.logistic, -3, 3),
    Sample("logistic", lax.logistic, (np.array([-800.0, 800.0, 40.0]),), "far out"),
    Sample("tanh", lax.tanh, (np.array([-800.0, 800.0, 0.0]),), "far out"),
    *_ends(),
    Sample("atan2", lax.atan2, (_real(2, 3), _real(2, 3))),
    Sample("atan2", lax.atan2, (_real(), _real(3)), "scalar first"),
    Sample("atan2", lax.atan2, (_real(3), _real()), "scalar second"),
    Sample("atan2", lax.atan2, (_real(), _real()), "0-d"),
    Sample("atan2", lax.atan2, (_real(0), _real(0)), "empty"),
    Sample("atan2", lax.atan2, (np.array([0.0, 1.0, -1.0]), np.array([-1.5, 0.0, -0.5])), "on the axes", smooth=False),
]
