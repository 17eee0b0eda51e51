"""Samples of the special functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(17)


def _uniform(low: float, high: float, *shape: int) -> Any:
    return _rng.uniform(low, high, size=shape)


def _unary(name: str, fun: Callable[..., Any], low: float, high: float) -> list[Sample]:
    return [
        Sample(name, fun, (_uniform(low, high, 2, 3),)),
        Sample(name, fun, (_uniform(low, high),), "0-d"),
        Sample(name, fun, (_uniform(low, high, 0, 2),), "empty"),
    ]


def _held(fun: Callable[..., Any], *held: Any) -> Callable[..., Any]:
    """``fun`` with its first arguments held, since there is no derivative in those.

    Copies of them: JAX remembers the type that an array had, which is another where 64 bits are on.
    """
    return lambda x: fun(*[each.copy() if isinstance(each, np.ndarray) else each for each in held], x)


_A, _X = _uniform(0.5, 4, 3), _uniform(0.5, 4, 3)

SAMPLES: list[Sample] = [
    *_unary("lgamma", lax.lgamma, 0.5, 5),
    Sample("lgamma", lax.lgamma, (np.array([-0.4, -1.6]),), "negative"),
    *_unary("digamma", lax.digamma, 0.5, 5),
    Sample("polygamma", _held(lax.polygamma, np.array([1.0, 2.0, 3.0])), (_X,)),
    Sample("polygamma", _held(lax.polygamma, np.array(1.0)), (_X,), "scalar order"),
    Sample("polygamma", _held(lax.polygamma, np.array([1.0, 2.0])), (np.array(0.7),), "scalar point"),
    # JAX has no derivative of zeta at all.
    Sample("zeta", _held(lax.zeta, np.array([2.5, 3.0, 4.0])), (_X,)),
    Sample("zeta", _held(lax.zeta, np.array(2.5)), (_X,), "scalar exponent"),
    Sample("igamma", lax.igamma, (_A, _X), order=1),
    Sample("igamma", lax.igamma, (np.array(1.5), _X), "scalar parameter", order=1),
    Sample("igamma", lax.igamma, (_A, np.array(1.5)), "scalar point", order=1),
    Sample("igamma", _held(lax.igamma, _A), (_X,), "parameter held"),
    Sample("igammac", lax.igammac, (_A, _X), order=1),
    Sample("igammac", lax.igammac, (_A, np.array(1.5)), "scalar point", order=1),
    Sample("igammac", _held(lax.igammac, _A), (_X,), "parameter held"),
    # JAX has no derivative of igamma_grad_a.
    Sample("igamma_grad_a", _held(lax.igamma_grad_a, _A), (_X,)),
    Sample("regularized_incomplete_beta", _held(lax.betainc, _A, _A[::-1].copy()), (_uniform(0.1, 0.9, 3),)),
    Sample("regularized_incomplete_beta", _held(lax.betainc, np.array(1.5), np.array(2.5)), (_uniform(0.1, 0.9, 3),), "scalars"),
    Sample("regularized_incomplete_beta", _held(lax.betainc, _A, np.array(2.5)), (np.array(0.4),), "scalar point"),
    *_unary("erf", lax.erf, -2, 2),
    *_unary("erfc", lax.erfc, -2, 2),
    *_unary("erf_inv", lax.erf_inv, -0.9, 0.9),
    Sample("erf_inv", lax.erf_inv, (np.array(1.0),), "at its end", smooth=False),
    *_unary("bessel_i0e", lax.bessel_i0e, -4, 4),
    *_unary("bessel_i1e", lax.bessel_i1e, -4, 4),
    Sample("bessel_i1e", lax.bessel_i1e, (np.array([0.0, 1e-20, 12.0]),), "at zero", smooth=False, order=1),
]  # fmt: skip
