"""Poisson numbers, drawn one by one: how many uniform draws each takes depends on their values."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from attrs import frozen

from fgrad.torch.random.generator import Draw, Generator
from fgrad.torch.random.libm import scalar_floor, scalar_log
from fgrad.torch.random.scalars import FLOATING, INT64_MIN, Array, not_implemented, rounded


def poisson(rates: Array, generator: Generator) -> Array:
    """Numbers of events, one for each rate, of the rates' type.

    Raises ``RuntimeError`` for a negative rate, ``NotImplementedError`` for a type that is not of floating point.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> poisson(np.array([1.0, 5.0, 50.0], np.float32), Generator().manual_seed(0))
    array([ 2.,  6., 49.], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.poisson.html
    """
    if rates.dtype not in FLOATING:
        raise not_implemented("poisson_cpu", rates.dtype)
    sampler = cache(_poisson)
    with generator.one_by_one() as draw:
        drawn = [sampler(rate)(draw) for rate in rates.astype(np.float64).ravel().tolist()]
    return rounded(np.array(drawn, np.int64), rates.dtype).reshape(rates.shape)


def _poisson(rate: float) -> Callable[[Draw], int]:
    """The sampler for one rate."""
    if not rate >= 0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    if rate == 0:
        return lambda draw: 0
    if rate >= 10:
        return _Candidates.of(rate).sample
    limit = math.exp(-rate)

    def arrivals(draw: Draw) -> int:
        """The number of arrivals within one unit of time."""
        count, product = 0, draw()
        while product > limit:
            count += 1
            product *= draw()
        return count

    return arrivals


@frozen
class _Candidates:
    """Hormann's transformed rejection (PTRS, 1993), for a rate of 10 or more."""

    rate: float
    log_rate: float
    a: float
    b: float
    log_inverse_alpha: float
    v_r: float

    @classmethod
    def of(cls, rate: float) -> "_Candidates":
        b = 0.931 + 2.53 * math.sqrt(rate)
        return cls(
            rate,
            log_rate=math.log(rate),
            a=-0.059 + 0.02483 * b,
            b=b,
            log_inverse_alpha=math.log(1.1239 + 1.1328 / (b - 3.4)),
            v_r=0.9277 - 3.6224 / (b - 2),
        )

    def sample(self, draw: Draw) -> int:
        accepted = self._accepted(draw)
        return int(accepted) if -(2.0**63) <= accepted < 2.0**63 else INT64_MIN

    def _accepted(self, draw: Draw) -> float:
        rate, a, b = self.rate, self.a, self.b
        while True:
            u = draw() - 0.5
            v = draw()
            distance = 0.5 - abs(u)
            slope = 2 * a / distance + b if distance else math.inf
            k = scalar_floor(slope * u + rate + 0.43)
            if distance >= 0.07 and v <= self.v_r:
                return k
            if k < 0 or (distance < 0.013 and v > distance):
                continue
            height = scalar_log(v) + self.log_inverse_alpha - math.log(a / (distance * distance) + b)
            if height <= -rate + k * self.log_rate - math.lgamma(k + 1):
                return k
