"""Samples of Bessel functions and of Airy's function."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

_ENDS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -3.0, 1e3, 104.0, 2.0, 5.0, 2.09, -2.09])
_REAL = np.concatenate([np.linspace(-30, 30, 97), np.geomspace(1e-8, 1e4, 60), -np.geomspace(1e-8, 1e2, 30)])

SAMPLES = [
    Sample(f"special.{name}", (x,), {}, label, order=0, tolerance=1e-9)
    for name in (
        "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1",
        "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
        "spherical_bessel_j0",
    )
    for label, x in (
        ("many", _REAL),
        ("ends", _ENDS),
        ("float32", np.linspace(-8, 12, 31, dtype="float32")),
        ("integers", integers(3)),
        ("booleans", np.array([True, False])),
        ("half", normal(3, dtype="float16")),
        ("complex", normal(3, dtype="complex64")),
    )
]  # fmt: skip
