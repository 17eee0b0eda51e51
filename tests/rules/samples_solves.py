"""Samples of ``triangular_solve`` (all flags) and ``tridiagonal_solve``."""

import itertools
from typing import Any

import numpy as np
from jax import lax

from tests.rules.samples import Sample

_rng = np.random.default_rng(14)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _triangular(label: str, a: Any, b: Any, **flags: Any) -> Sample:
    a = a + 3 * np.eye(a.shape[-1])
    return Sample("triangular_solve", lambda a, b: lax.linalg.triangular_solve(a, b, **flags), (a, b), label)


def _every_flag() -> list[Sample]:
    samples = []
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for values in itertools.product((False, True), repeat=5):
        flags = dict(zip(names, values, strict=True))
        shape = (3, 2) if flags["left_side"] else (2, 3)
        label = " ".join(name for name in names if flags[name])
        samples.append(_triangular(f"complex {label}", _complex(3, 3), _complex(*shape), **flags))
        if not flags["conjugate_a"]:
            samples.append(_triangular(label, _real(3, 3), _real(*shape), **flags))
    return samples


def _tridiagonal(label: str, below: Any, middle: Any, above: Any, b: Any) -> Sample:
    args = (below, middle + 4, above, b)
    return Sample("tridiagonal_solve", lambda *args: lax.linalg.tridiagonal_solve(*args), args, label)


SAMPLES: list[Sample] = [
    *_every_flag(),
    _triangular("stack", _real(2, 3, 3), _real(2, 2, 3)),
    _triangular("stack, left, transposed", _real(2, 3, 3), _real(2, 3, 2), left_side=True, transpose_a=True),
    _triangular("1 x 1", _real(1, 1), _real(2, 1)),
    _triangular("empty", _real(0, 0), _real(2, 0)),
    _triangular("no right side", _real(2, 2), _real(0, 2)),
    _triangular("empty stack", _real(0, 2, 2), _real(0, 2, 2)),
    _tridiagonal("plain", _real(4), _real(4), _real(4), _real(4, 2)),
    _tridiagonal("three", _real(3), _real(3), _real(3), _real(3, 1)),
    _tridiagonal("complex", _complex(4), _complex(4), _complex(4), _complex(4, 2)),
    _tridiagonal("stack", _real(2, 3), _real(2, 3), _real(2, 3), _real(2, 3, 2)),
]
