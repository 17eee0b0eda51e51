"""Samples of Fourier transforms."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

REAL, COMPLEX = normal(3, 4), normal(3, 4, dtype="complex128")
_ONE = (
    {}, {"n": 6}, {"n": 2, "dim": 0, "norm": "ortho"}, {"norm": "forward"}, {"n": 0}, {"norm": "other"}, {"dim": 3},
    {"n": 5, "dim": -2},
)  # fmt: skip
_SEVERAL = (
    {}, {"s": (2, 5)}, {"dim": (0,)}, {"dim": (1, 0), "norm": "ortho"}, {"s": (2, 2, 2)}, {"dim": (0, 0)},
    {"norm": "forward"},
)  # fmt: skip


def _samples(name: str, array: np.ndarray, settings: tuple, label: str = "") -> list[Sample]:
    return [Sample(f"fft.{name}", (array,), kwargs, f"{label}{i}") for i, kwargs in enumerate(settings)]


SAMPLES: list[Sample] = [
    *[s for name in ("fft", "ifft") for x in (REAL, COMPLEX) for s in _samples(name, x, _ONE, x.dtype.name)],
    *[s for name in ("rfft", "ihfft") for s in _samples(name, REAL, _ONE)],
    *[s for name in ("irfft", "hfft") for s in _samples(name, COMPLEX, _ONE)],
    *[s for name in ("irfft", "hfft") for s in _samples(name, REAL, ({}, {"n": 1}), "real")],
    *[s for name in ("rfft", "ihfft", "rfftn", "ihfftn") for s in _samples(name, COMPLEX, ({},), "complex")],
    *[s for name in ("fftn", "ifftn") for x in (REAL, COMPLEX) for s in _samples(name, x, _SEVERAL, x.dtype.name)],
    *[s for name in ("rfftn", "ihfftn") for s in _samples(name, REAL, _SEVERAL)],
    *[s for name in ("irfftn", "hfftn") for s in _samples(name, COMPLEX, _SEVERAL)],
    *[s for name in ("fft2", "ifft2", "irfft2", "hfft2") for s in _samples(name, COMPLEX, ({}, {"s": (2, 5)}))],
    *[s for name in ("rfft2", "ihfft2") for s in _samples(name, REAL, ({}, {"s": (2, 5)}))],
    Sample("fft.fft", (integers(4),), {}, "integers"),
    Sample("fft.fft", (normal(4, dtype="float16"),), {}, "half"),
    Sample("fft.fft", (normal(),), {}, "0-d"),
    *[
        Sample(f"fft.{name}", args, {}, f"{args}")
        for name in ("fftfreq", "rfftfreq")
        for args in ((5,), (4, 0.5), (1,))
    ],
    *[
        Sample(f"fft.{name}", (REAL, *args), {}, f"{args}")
        for name in ("fftshift", "ifftshift")
        for args in ((), (0,), ((0, 1),))
    ],
]
