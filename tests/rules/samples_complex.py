"""Samples of the parts of complex numbers, of the modulus and of the direction."""

from typing import Any

import numpy as np
from jax import lax

from fgrad.jaxcore import primitive
from tests.rules.samples import Sample

_rng = np.random.default_rng(9)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _conj(input_dtype: Any) -> Any:
    return lambda x: primitive("conj").bind(x, input_dtype=np.dtype(input_dtype))


SAMPLES: list[Sample] = [
    Sample("real", lax.real, (_complex(3),)),
    Sample("real", lax.real, (_complex(),), "0-d"),
    Sample("real", lax.real, (_complex(0),), "empty"),
    Sample("imag", lax.imag, (_complex(3),)),
    Sample("imag", lax.imag, (_complex(),), "0-d"),
    Sample("imag", lax.imag, (_complex(2, 0),), "empty"),
    Sample("complex", lax.complex, (_real(2, 3), _real(2, 3))),
    Sample("complex", lax.complex, (_real(), _real(3)), "scalar first"),
    Sample("complex", lax.complex, (_real(2, 3), _real()), "scalar second"),
    Sample("complex", lax.complex, (_real(2, 1), _real(1, 3)), "stretched"),
    Sample("complex", lax.complex, (_real(0), _real(0)), "empty"),
    Sample("conj", _conj("complex128"), (_complex(3),)),
    Sample("conj", _conj("float64"), (_real(3),), "of real numbers"),
    Sample("conj", _conj("complex128"), (_complex(),), "0-d"),
    Sample("abs", lax.abs, (_real(3),)),
    Sample("abs", lax.abs, (_real(),), "0-d"),
    Sample("abs", lax.abs, (_real(0),), "empty"),
    Sample("abs", lax.abs, (np.array([0.0, -0.0, 2.0]),), "at zero", smooth=False),
    Sample("abs", lax.abs, (_complex(2, 2),), "complex"),
    Sample("abs", lax.abs, (_complex(),), "complex 0-d"),
    Sample("abs", lax.abs, (np.array([0j, 1 + 0j]),), "complex at zero", smooth=False, order=1),
    Sample("sign", lax.sign, (_real(3),)),
    Sample("sign", lax.sign, (np.zeros(2),), "at zero", smooth=False),
]

if hasattr(lax, "log2"):
    # Before version 0.12 JAX took the derivative of the complex sign for zero.
    SAMPLES.append(Sample("sign", lax.sign, (_complex(3),), "complex"))
