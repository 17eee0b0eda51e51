"""Samples of ``fft``: the four kinds, odd and even lengths, one to three dimensions."""

from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(13)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _fft(kind: lax.FftType, x: Any, lengths: tuple[int, ...]) -> Sample:
    return Sample("fft", lambda x: lax.fft(x, kind, lengths), (x,), f"{kind.name} {x.shape} {lengths}")


def _single(x: Any) -> Any:
    return lax.fft(lax.convert_element_type(x, np.float32), lax.FftType.RFFT, (4,))


_SHAPES = [((4,), (4,)), ((2, 3), (3,)), ((2, 3), (2, 3)), ((2, 1, 4), (1, 4)), ((2, 3, 2), (2, 3, 2)), ((0, 3), (3,))]
_LENGTHS = [(1,), (2,), (3,), (4,), (5,), (2, 4), (3, 3), (2, 3, 4)]

SAMPLES: list[Sample] = [
    *(_fft(kind, _complex(*shape), n) for kind in (lax.FftType.FFT, lax.FftType.IFFT) for shape, n in _SHAPES),
    *(_fft(lax.FftType.RFFT, _real(2, *n), n) for n in _LENGTHS),
    *(_fft(lax.FftType.IRFFT, _complex(2, *n[:-1], n[-1] // 2 + 1), n) for n in _LENGTHS),
    _fft(lax.FftType.RFFT, _real(0, 4), (4,)),
    _fft(lax.FftType.IRFFT, _complex(0, 3), (4,)),
    Sample("fft", _single, (_real(4),), "float32", smooth=False, tolerance=1e-5),
]
