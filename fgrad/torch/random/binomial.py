"""Binomial numbers, drawn one by one: how many uniform draws each takes depends on their values."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.context.warning import warn
from fgrad.torch.random.generator import Draw, Generator
from fgrad.torch.random.libm import scalar_floor, scalar_log
from fgrad.torch.random.scalars import FLOAT32, FLOAT64, FLOATING, Array, not_implemented, scalar_name

# PyTorch makes the result in the shape of the counts at first
_RESIZED = (
    "An output with one or more elements was resized since it had shape {}, which does not match the required output "
    "shape {}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they "
    "have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
    "t.resize_(0)."
)


def binomial(counts: Array, probabilities: Array, generator: Generator) -> Array:
    """Numbers of successes in ``counts`` trials; the two arrays are broadcast.

    Warns if the shape is not that of the counts, as PyTorch does.

    Raises ``ValueError`` for types that are not of floating point, ``RuntimeError`` for two different ones,
    ``NotImplementedError`` for a type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> counts = np.array([10.0, 100.0], np.float32)
    >>> binomial(counts, np.array(0.5, np.float32), Generator().manual_seed(0))
    array([ 7., 51.], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.binomial.html
    """
    generator.check_on_host()
    for name, values in (("count", counts), ("prob", probabilities)):
        if values.dtype not in FLOATING:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {scalar_name(values.dtype)}"
            )
    if counts.dtype != probabilities.dtype:
        raise RuntimeError(f"Found dtype {scalar_name(probabilities.dtype)} but expected {scalar_name(counts.dtype)}")
    shape = np.broadcast_shapes(counts.shape, probabilities.shape)
    if shape != counts.shape and counts.size:
        warn(_RESIZED.format(list(counts.shape), list(shape)))
    counts, probabilities = np.broadcast_arrays(counts, probabilities)
    if counts.dtype not in (FLOAT32, FLOAT64):
        raise not_implemented("binomial_cpu", counts.dtype)
    sampler = cache(_binomial)
    with generator.one_by_one() as draw, np.errstate(all="ignore"):
        drawn = [sampler(*trial)(draw) for trial in zip(counts.flat, probabilities.flat, strict=True)]
    return np.array(drawn, counts.dtype).reshape(counts.shape)


def _binomial(count: Any, probability: Any) -> Callable[[Draw], float]:
    """The sampler for one count and one probability, which are NumPy scalars of the type that is computed in."""
    real = type(count)
    if count <= 0 or probability <= 0:
        return lambda draw: 0.0
    if probability >= 1:
        return lambda draw: float(count)
    if probability <= 0.5:
        return _rare_successes(count, probability)
    if probability > 0.5:
        failures = _rare_successes(count, real(1.0 - float(probability)))
        return lambda draw: float(count) - failures(draw)
    return lambda draw: math.nan


def _rare_successes(count: Any, probability: Any) -> Callable[[Draw], float]:
    if count * probability >= 10:
        return _Candidates.of(count, probability).sample
    log_failure = float(np.log1p(-probability))

    def count_gaps(draw: Draw) -> float:
        trials, successes = 0.0, 0.0
        while True:
            trials += float(np.ceil(scalar_log(draw()) / log_failure))
            if trials > count:
                return successes
            successes += 1.0

    return count_gaps


# the error of Stirling's approximation of log(k!), for small k
_STIRLING_TAILS = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def _stirling_tail(k: float) -> float:
    if k < len(_STIRLING_TAILS):
        return _STIRLING_TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


@frozen
class _Candidates:
    """Hormann's transformed rejection (BTRS, 1993), for ten expected successes or more.

    PyTorch computes some of the constants in the type of the arguments, and the rest in double precision.
    """

    count: Any
    a: float
    b: float
    c: float
    v_r: float
    r: float
    alpha: float
    m: float

    @classmethod
    def of(cls, count: Any, probability: Any) -> "_Candidates":
        one = type(count)(1)
        deviation = float(np.sqrt(count * probability * (one - probability)))
        b = 1.15 + 2.53 * deviation
        return cls(
            count,
            a=-0.0873 + 0.0248 * b + 0.01 * float(probability),
            b=b,
            c=float(count * probability) + 0.5,
            v_r=0.92 - 4.2 / b,
            r=float(probability / (one - probability)),
            alpha=(2.83 + 5.1 / b) * deviation,
            m=float(np.floor((count + one) * probability)),
        )

    def sample(self, draw: Draw) -> float:
        real, count, a, b, m = type(self.count), float(self.count), self.a, self.b, self.m
        while True:
            u = draw() - 0.5
            v = draw()
            distance = 0.5 - abs(u)
            slope = 2 * a / distance + b if distance else math.inf
            k = float(real(scalar_floor(slope * u + self.c)))
            if not 0 <= k <= count:
                continue
            if distance >= 0.07 and v <= self.v_r:
                return k
            height = scalar_log(v * self.alpha / (a / (distance * distance) + b))
            above = float(real(count - k) + real(1))
            bound = (
                (m + 0.5) * math.log((m + 1) / (self.r * (count - m + 1)))
                + float(real(count) + real(1)) * math.log((count - m + 1) / above)
                + (k + 0.5) * math.log(self.r * above / float(real(k) + real(1)))
                + _stirling_tail(m)
                + _stirling_tail(count - m)
                - _stirling_tail(k)
                - _stirling_tail(float(real(count - k)))
            )
            if height <= bound:
                return k
