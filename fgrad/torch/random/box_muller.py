"""Box and Muller's normal numbers from pairs of uniform ones, in blocks of sixteen.

NOTE: the float32 kernel.  On x86 PyTorch computes float32 normals eight at a time with polynomials from Cephes, whose
multiplications and additions its compiler fuses.  Here each fused step is computed in float64 and rounded to float32.
Rounding twice could differ in principle; but a uniform float32 number has 24 bits, and for each of the 2**24 arguments
the result was compared with PyTorch's: none differs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.jaxcore import eval_context
from fgrad.mutable.values.evaluation import Routine, array_type, concrete, recorded
from fgrad.run.policy import pieces
from fgrad.torch.random import libm
from fgrad.torch.random.fused import fma_double, fma_single
from fgrad.torch.random.generator import Ahead, Generator
from fgrad.torch.random.scalars import FLOAT32, FLOAT64, Array

_F = np.float32

# log(m) = m - m**2 / 2 + m**3 P(m), with log(2) in two parts
_LOG_P = [
    _F(p)
    for p in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
]
_LOG2_HIGH, _LOG2_LOW = _F(0.693359375), _F(-2.12194440e-4)
_SQRT_HALF = _F(0.707106781186547524)

# pi / 4 in three parts, and the polynomials for arguments up to pi / 4
_QUARTER_PI = [_F(p) for p in (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)]
_FOUR_OVER_PI = _F(1.27323954473516)
_SIN_P = [_F(p) for p in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)]
_COS_P = [_F(p) for p in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)]

_CHUNK = 1024  # blocks at a time, so that intermediates stay in cache


def _fused(wide: Array, b: Any, c: Any) -> Array:
    return (wide * b + c).astype(FLOAT32)


def _polynomial(coefficients: list[np.float32], x: Array) -> Array:
    wide = x.astype(FLOAT64)
    value = _fused(wide, coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        value = _fused(wide, value, coefficient)
    return value


def _log_single(x: Array) -> Array:
    """The logarithm of float32 numbers in (0, 1]."""
    bits = x.view(np.int32)
    # x = m * 2**exponent with m in [1/2, 1), then moved to [sqrt(1/2), sqrt(2))
    exponent = (bits >> 23) - 126
    m = ((bits & 0x007FFFFF) | 0x3F000000).view(FLOAT32)
    below = m < _SQRT_HALF
    exponent = (exponent - below).astype(FLOAT32)
    m = (m - _F(1)) + m * below
    square = m * m
    value = _fused((_polynomial(_LOG_P, m) * m).astype(FLOAT64), square, exponent * _LOG2_LOW)
    value = value - square * _F(0.5)
    return m + value + exponent * _LOG2_HIGH


def _sin_cos_single(np_: Any, x: Array) -> tuple[Array, Array]:
    """Sine and cosine of float32 numbers in [0, 2 pi)."""
    octant = ((x * _FOUR_OVER_PI).astype(np.int32) + 1) & ~1
    turns = octant.astype(FLOAT64)
    for part in _QUARTER_PI:
        x = _fused(turns, -part, x)
    square = x * x
    wide = square.astype(FLOAT64)
    cosine = _fused(wide, _polynomial(_COS_P, square) * square, square * _F(-0.5)) + _F(1)
    sine = _fused(x.astype(FLOAT64), _polynomial(_SIN_P, square) * square, x)
    swapped = (octant & 2) != 0
    # the sign bits, as integers: bit 2 of the octant moved to bit 31
    sine_sign = (octant & 4) << 29
    cosine_sign = (~(octant - 2) & 4) << 29
    sines = (np_.where(swapped, cosine, sine).view(np.int32) ^ sine_sign).view(FLOAT32)
    cosines = (np_.where(swapped, sine, cosine).view(np.int32) ^ cosine_sign).view(FLOAT32)
    return sines, cosines


def _normal_single(np_: Any, radii: Array, angles: Array) -> tuple[Array, Array]:
    """Standard normal numbers from float32 uniform ones, by NumPy or by ``jax.numpy``."""
    radius = np_.sqrt(_F(-2) * _log_single(_F(1) - radii))
    sines, cosines = _sin_cos_single(np_, _F(2 * np.pi) * angles)
    return radius * cosines, radius * sines


def _halves(np_: Any, uniform: Array) -> tuple[Array, Array]:
    return _normal_single(np_, uniform[:, :8], uniform[:, 8:])


class _Compiled:
    """``_halves`` of up to ``rows`` blocks, compiled in the background after enough calls.

    The products that XLA may fuse have few bits and are exact either way.
    """

    __slots__ = ("calls", "routine", "rows")

    def __init__(self, rows: int):
        self.rows = rows
        self.calls = 0
        self.routine: Routine | None = None

    def __call__(self, uniform: Array) -> Sequence[Array]:
        self.calls += 1 + len(uniform) // _MANY
        if self.calls <= TRIALS:
            return _halves(np, uniform)
        if self.routine is None:
            graph = recorded(lambda rows: _halves(jnp, rows), [array_type((self.rows, 16), FLOAT32)])
            self.routine = Routine(graph, pieces)
        if not self.routine.ready():
            return _halves(np, uniform)
        count = len(uniform)
        if count != self.rows:
            filled = np.zeros((self.rows, 16), FLOAT32)
            filled[:count] = uniform
            uniform = filled
        with eval_context():
            halves = self.routine([uniform])
        return [concrete(x)[:count] for x in halves]


#: a few programs serve arrays of all sizes but small ones, for which NumPy is faster
_SIZES = [_Compiled(8**n) for n in range(3, 6)]
_SMALL = 64
#: how many calls before a size is compiled; every ``_MANY`` rows count as another
TRIALS, _MANY = 40, 1024
#: how many numbers are computed ahead at first, and later; and how many one draw may take of them
_FIRST, _LATER, AHEAD = 16 * _SMALL, 16 * 4096, 16 * 512


def _standard_single(uniform: Array) -> None:
    """Replaces blocks of float32 uniform numbers by standard normal ones."""
    if len(uniform) <= _SMALL:
        halves = _halves(np, uniform)
    else:
        halves = next(each for each in _SIZES if len(uniform) <= each.rows)(uniform)
    uniform[:, :8], uniform[:, 8:] = halves


def _scaled_single(numbers: Array, mean: float, std: float) -> Array:
    if mean == 0.0 and std == 1.0:
        return numbers + _F(0)  # as the addition of a mean: no negative zeros
    return fma_single(numbers, float(_F(std)), float(_F(mean)))


def _blocks_single(uniform: Array, mean: float, std: float) -> None:
    _standard_single(uniform)
    uniform[...] = _scaled_single(uniform, mean, std)


def following(generator: Generator, count: int, mean: float, std: float) -> Array:
    """The next float32 normal numbers: at most ``AHEAD``, a multiple of 16.

    NOTE [Numbers ahead]
    A few numbers cost NumPy a hundred calls, and a compiled program the wake-up of a thread.  So from the second normal
    draw in a row on, numbers are computed ahead, more each time, and the next draws take from them.  The generator's
    state is always where PyTorch's would be; any other draw discards the numbers ahead.
    """
    with generator.lock:
        ahead = generator.ahead
        if ahead is None:
            values, remaining = generator.floats(count), Ahead(np.empty(0, FLOAT32), _FIRST)
            _standard_single(values.reshape(-1, 16))
        else:
            if len(ahead.numbers) < count:
                numbers = generator.peeked(max(count, ahead.following))
                _standard_single(numbers.reshape(-1, 16))
                ahead = Ahead(numbers, min(8 * ahead.following, _LATER))
            generator.skip(count)
            values, remaining = ahead.numbers[:count], Ahead(ahead.numbers[count:], ahead.following)
        generator.ahead = remaining
    return _scaled_single(values, mean, std)


def _blocks_double(uniform: Array, mean: float, std: float) -> None:
    radius = np.sqrt(-2.0 * libm.log(1.0 - uniform[:, :8]))
    angle = 2 * np.pi * uniform[:, 8:]
    for half, direction in ((uniform[:, :8], libm.cos(angle)), (uniform[:, 8:], libm.sin(angle))):
        half[...] = fma_double(radius * direction, std, mean)


def blocks_of_sixteen(uniform: Array, mean: float, std: float) -> Array:
    """Normal numbers from uniform ones: in each block of 16, the first 8 are radii and the last 8 angles.

    ``uniform`` is a float32 or float64 array whose size is a multiple of 16.  It is overwritten, unless it is
    traced.
    """
    rows = uniform.reshape(-1, 16)
    if not isinstance(uniform, np.ndarray):
        return _blocks_in_a_program(rows, mean, std).reshape(-1)
    transform, most = (_blocks_single, _SIZES[-1].rows) if uniform.dtype == FLOAT32 else (_blocks_double, _CHUNK)
    for start in range(0, len(rows), most):
        transform(rows[start : start + most], mean, std)
    return uniform


def _blocks_in_a_program(rows: Any, mean: float, std: float) -> Any:
    if rows.dtype == FLOAT32:
        normal: Any = jnp.concatenate(_halves(jnp, rows), axis=1)
        return _scaled_single(normal, mean, std)
    radius, angle = np.sqrt(-2.0 * libm.log(1.0 - rows[:, :8])), 2 * np.pi * rows[:, 8:]
    normal = jnp.concatenate([radius * libm.cos(angle), radius * libm.sin(angle)], axis=1)
    return fma_double(normal, std, mean)


def pairs(uniform: Array) -> Array:
    """Standard normal numbers from float64 uniform ones: each pair gives a cosine and a sine, in turn."""
    radius = np.sqrt(-2.0 * libm.log1p(-uniform[1::2]))
    angle = 2 * np.pi * uniform[0::2]
    return np.stack([radius * libm.cos(angle), radius * libm.sin(angle)], axis=1).ravel()
