"""The discrete Fourier transforms: ``fft`` with its four kinds.

The matrix of an FFT is symmetric, hence FFT and IFFT are their own transposes.  RFFT is the FFT of real numbers, of
which it keeps half; IRFFT reads such a half and supplies the rest by symmetry, which counts every frequency twice
except the first one and, in even lengths, the middle one (and reads only the real part of these two).  So each is the
transpose of the other, up to conjugation, the number of points, and that count:

    RFFT^T(ct) = N IRFFT(conj(ct) / count)        IRFFT^T(ct) = conj(RFFT(ct)) count / N
"""

import math
from typing import Any

import numpy as np
from jax import lax

from fgrad.rules.arithmetic import zeros
from fgrad.rules.kinds import Linear, define


def _counts(x: Any, length: int, single: float, double: float) -> Any:
    """``x``, half a spectrum of ``length`` points, times ``single`` or ``double``: how often IRFFT counts each one."""
    index = lax.iota(np.int32, x.shape[-1])
    alone = lax.eq(lax.rem(lax.mul(index, np.int32(2)), np.int32(length)), np.int32(0))
    factors = lax.select(alone, lax.full(index.shape, single, x.dtype), lax.full(index.shape, double, x.dtype))
    return lax.mul(x, lax.broadcast_in_dim(factors, x.shape, (x.ndim - 1,)))


def _fft_transpose(ct, x, *, fft_type, fft_lengths, **_):
    if ct.size == 0:
        return (zeros(x),)
    points = math.prod(fft_lengths)
    if fft_type == lax.FftType.RFFT:
        half = _counts(lax.conj(ct), fft_lengths[-1], points, points / 2)
        return (lax.fft(half, lax.FftType.IRFFT, fft_lengths),)
    if fft_type == lax.FftType.IRFFT:
        half = lax.conj(lax.fft(ct, lax.FftType.RFFT, fft_lengths))
        return (_counts(half, fft_lengths[-1], 1 / points, 2 / points),)
    return (lax.fft(ct, fft_type, fft_lengths),)


define("fft", Linear(_fft_transpose))
