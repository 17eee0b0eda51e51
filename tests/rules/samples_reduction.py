"""Samples of reductions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(11)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _distinct(*shape: int) -> Any:
    """Numbers well apart from each other, in no order."""
    return 0.3 * _rng.permutation(np.arange(float(np.prod(shape)))).reshape(shape) - 1


def _over(reduce: Callable[..., Any], *axes: int) -> Callable[..., Any]:
    return lambda x: reduce(x, axes)


def _reduce(computation: Callable[..., Any], start: float, *axes: int) -> Callable[..., Any]:
    return lambda x: lax.reduce(x, np.float64(start), computation, axes)


def _samples(name: str, reduce: Callable[..., Any], draw: Callable[..., Any]) -> list[Sample]:
    return [
        Sample(name, _over(reduce, 0), (draw(4),)),
        Sample(name, _over(reduce, 1), (draw(2, 3),), "last axis"),
        Sample(name, _over(reduce, 0, 2), (draw(2, 3, 2),), "two axes"),
        Sample(name, _over(reduce, 2, 1), (draw(2, 3, 2),), "axes out of order"),
        Sample(name, _over(reduce, 0, 1), (draw(2, 3),), "all axes"),
        Sample(name, _over(reduce), (draw(2, 3),), "no axis"),
        Sample(name, _over(reduce), (draw(),), "0-d"),
        Sample(name, _over(reduce, 0), (draw(2, 0),), "empty"),
        Sample(name, _over(reduce, 0), (draw(1),), "one entry"),
    ]


def _ties(name: str, reduce: Callable[..., Any]) -> list[Sample]:
    tied = np.array([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0]])
    # The second derivative of JAX sees the shares, which are quotients of counts, as smooth; so does ours.
    return [
        Sample(name, _over(reduce, 1), (tied,), "ties", smooth=False),
        Sample(name, _over(reduce, 0, 1), (tied,), "ties, all axes", smooth=False),
        Sample(name, _over(reduce, 0), (np.array([1.0, np.nan, 2.0]),), "nan", smooth=False, order=1),
    ]


SAMPLES: list[Sample] = [
    *_samples("reduce_sum", lax.reduce_sum, _real),
    Sample("reduce_sum", _over(lax.reduce_sum, 1), (_complex(2, 3),), "complex"),
    Sample("reduce_sum", _over(lax.reduce_sum, 1), (_real(2, 0),), "of nothing"),
    *_samples("reduce_max", lax.reduce_max, _distinct),
    *_ties("reduce_max", lax.reduce_max),
    *_samples("reduce_min", lax.reduce_min, _distinct),
    *_ties("reduce_min", lax.reduce_min),
    *_samples("reduce_prod", lax.reduce_prod, _real),
    Sample("reduce_prod", _over(lax.reduce_prod, 1), (_complex(2, 3),), "complex"),
    Sample("reduce_prod", _over(lax.reduce_prod, 1), (_real(2, 0),), "of nothing"),
    Sample("reduce_prod", _over(lax.reduce_prod, 0), (np.array([2.0, 0.0, 3.0, 1.5]),), "one zero", order=3),
    Sample("reduce_prod", _over(lax.reduce_prod, 0), (np.array([2.0, 0.0, 3.0, 0.0]),), "two zeros", order=3),
    Sample("reduce", _reduce(lax.add, 0.5, 0), (_real(3, 2),), "add"),
    Sample("reduce", _reduce(lax.mul, 0.5, 1, 0), (_real(3, 2),), "mul"),
    Sample("reduce", _reduce(lax.max, -5, 1), (_distinct(3, 2),), "max"),
    Sample("reduce", _reduce(lax.min, 5, 1), (_distinct(3, 2),), "min"),
    # JAX refuses the derivative in the initial value.
    Sample("reduce", lambda x, y: lax.reduce(x, y, lax.mul, (1,)), (_real(3, 2), np.array(0.5)), "initial value"),
    Sample("argmax", lambda x: lax.argmax(x, 1, np.int32), (_distinct(2, 3),)),
    Sample("argmin", lambda x: lax.argmin(x, 0, np.int32), (_distinct(2, 3),)),
    *[
        Sample(name, _over(reduce, 0), (np.array([[1, 6], [3, 12]], np.int32),))
        for name, reduce in {"reduce_and": lax.reduce_and, "reduce_or": lax.reduce_or, "reduce_xor": lax.reduce_xor}.items()
    ],
]  # fmt: skip
