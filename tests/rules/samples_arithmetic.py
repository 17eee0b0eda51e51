"""Samples of arithmetic, powers, exponentials and logarithms, comparisons and bitwise operations."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from fgrad.jaxcore import primitive
from tests.rules.samples import Sample

_rng = np.random.default_rng(5)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _positive(*shape: int) -> Any:
    return _rng.uniform(0.5, 2.0, size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _distinct(*shape: int) -> Any:
    """Numbers well apart from each other, in no order."""
    return 0.3 * _rng.permutation(np.arange(float(np.prod(shape)))).reshape(shape) - 1


def _unary(name: str, fun: Callable[..., Any], draw: Callable[..., Any], complex_too: bool = True) -> list[Sample]:
    samples = [
        Sample(name, fun, (draw(3),)),
        Sample(name, fun, (draw(),), "0-d"),
        Sample(name, fun, (draw(2, 0),), "empty"),
    ]
    return [*samples, Sample(name, fun, (_complex(2, 2),), "complex")] if complex_too else samples


def _binary(name: str, fun: Callable[..., Any], draw: Callable[..., Any], complex_too: bool = True) -> list[Sample]:
    samples = [
        Sample(name, fun, (draw(2, 3), draw(2, 3))),
        Sample(name, fun, (draw(), draw()), "0-d"),
        Sample(name, fun, (draw(0), draw(0)), "empty"),
        Sample(name, fun, (draw(), draw(3)), "scalar first"),
        Sample(name, fun, (draw(3), draw()), "scalar second"),
        Sample(name, fun, (draw(1, 3), draw(2, 1)), "stretched"),
    ]
    return [*samples, Sample(name, fun, (_complex(3), _complex(3)), "complex")] if complex_too else samples


def _ties(name: str, fun: Callable[..., Any], *args: Any) -> Sample:
    return Sample(name, fun, tuple(np.asarray(a) for a in args), "ties", smooth=False)


def _add_any(x: Any, y: Any) -> Any:
    return primitive("add_any").bind(x, y)


def _mul_to_float32(x: Any, y: Any) -> Any:
    return primitive("mul").bind(x, y, out_dtype=np.dtype(np.float32))


def _pow(y: Any) -> Callable[..., Any]:
    return lambda x: lax.pow(x, y)


def _integer_pow(y: int) -> Callable[..., Any]:
    return lambda x: primitive("integer_pow").bind(x, y=y)


def _only_in_new_jax() -> list[Sample]:
    # JAX 0.10 has none of these three, 0.11 has the first two.
    def polynomial(x: Any, *coefficients: Any) -> Any:
        return primitive("polynomial").bind(x, *coefficients)

    samples = [
        *_unary("log2", lambda x: primitive("log2").bind(x, accuracy=None), _positive),
        *_unary("one_minus_square", lambda x: primitive("one_minus_square").bind(x), _real),
        Sample("polynomial", polynomial, (_real(3), _real(), _real(), _real()), "scalar coefficients"),
        Sample("polynomial", polynomial, (_real(3), _real(3), _real(), _real(3), _real()), "some scalar coefficients"),
        Sample("polynomial", polynomial, (_real(), _real(3), _real(3)), "scalar point"),
        Sample("polynomial", polynomial, (_real(3), _real(3)), "constant"),
        Sample("polynomial", polynomial, (_complex(2), _complex(), _complex(2), _complex()), "complex"),
    ]
    return [sample for sample in samples if hasattr(lax, f"{sample.primitive}_p")]


_TIED = ([1.0, 2.0, 3.0, -0.0], [1.0, 3.0, 2.0, 0.0])

SAMPLES: list[Sample] = [
    *_unary("neg", lax.neg, _real),
    *_binary("add", lax.add, _real),
    Sample("add", lambda x: lax.add(x, x), (_real(3),), "one array twice"),
    *_binary("add_any", _add_any, lambda *shape: _real(2))[:1],
    Sample("add_any", _add_any, (_complex(2), _complex(2)), "complex"),
    *_binary("sub", lax.sub, _real),
    *_binary("mul", lax.mul, _real),
    Sample("mul", lambda x: lax.mul(x, x), (_real(3),), "one array twice"),
    Sample("mul", _mul_to_float32, (np.float32(_real(3)), np.float32(_real(3))), "out_dtype", smooth=False),
    *_binary("div", lax.div, _positive),
    *_binary("rem", lambda x, y: lax.rem(lax.mul(x, np.float64(5)), y), _positive, complex_too=False),
    Sample("rem", lax.rem, (np.array([-5.3, 5.2, -5.1]), np.array([3.0, -3.0, -2.0])), "signs"),
    _ties("rem", lax.rem, [6.0, -6.0, 0.0], [3.0, 3.0, 2.0]),
    *_binary("max", lax.max, lambda *shape: _rng.normal(size=shape), complex_too=False),
    _ties("max", lax.max, *_TIED),
    _ties("max", lax.max, [1.0, 2.0], 1.0),
    Sample("max", lax.max, (np.array([np.nan, 1.0]), np.array([1.0, np.nan])), "nan", smooth=False, order=1),
    Sample("max", jnp.hypot, (np.array([np.nan, 1.0]), np.array([1.0, np.nan])), "nan of hypot", smooth=False),
    *_binary("min", lax.min, lambda *shape: _rng.normal(size=shape), complex_too=False),
    _ties("min", lax.min, *_TIED),
    _ties("min", lax.min, 1.0, [1.0, 2.0]),
    Sample("clamp", lax.clamp, (_real(3) - 1, _real(3) * 2, _real(3) + 1)),
    Sample("clamp", lax.clamp, (np.array(-0.5), _real(2, 3), np.array(0.5)), "scalar bounds"),
    Sample("clamp", lax.clamp, (np.array(-0.5), np.array(0.7), np.array(0.5)), "0-d"),
    Sample("clamp", lax.clamp, (_real(0), _real(0), _real(0)), "empty"),
    _ties("clamp", lax.clamp, [0.0, 0.0, 1.0, 2.0, 2.0, 2.0], [0.0, 1.0, 1.0, 3.0, 1.5, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    Sample("select_n", lax.select_n, (np.array([True, False, True]), _real(3), _real(3))),
    Sample("select_n", lax.select_n, (np.array(True), _real(2, 3), _real(2, 3)), "scalar which"),
    Sample("select_n", lax.select_n, (np.array([2, 0, 1, 2], np.int32), _complex(4), _complex(4), _complex(4)), "three"),
    Sample("select_n", lax.select_n, (np.array(1, np.int32), _real(2), _real(2), _real(2)), "three, scalar which"),
    Sample("select_n", lambda x: lax.select_n(np.int32(0), x), (_real(3),), "one case"),
    Sample("select_n", lax.select_n, (np.zeros(0, bool), _real(0), _real(0)), "empty"),
    *_unary("square", lax.square, _real),
    *_unary("sqrt", lax.sqrt, _positive),
    *_unary("cbrt", lax.cbrt, _positive, complex_too=False),
    Sample("cbrt", lax.cbrt, (np.array(0.0),), "at zero", smooth=False),
    Sample("cbrt", lax.cbrt, (np.array([-2.0, -0.5]),), "negative"),
    *_unary("rsqrt", lax.rsqrt, _positive),
    *[
        Sample("integer_pow", _integer_pow(y), (draw(3),), f"{label} to the {y}")
        for y in (-2, -1, 0, 1, 2, 3, 5)
        for draw, label in ((_real, "real"), (_complex, "complex"))
    ],
    Sample("integer_pow", _integer_pow(3), (_real(),), "0-d"),
    Sample("integer_pow", _integer_pow(3), (_real(0, 2),), "empty"),
    Sample("integer_pow", _integer_pow(2), (np.zeros(2),), "at zero"),
    *_binary("pow", lax.pow, _positive),
    Sample("pow", _pow(np.array([0, 1, 2, 3, -2], np.int32)), (_real(5),), "integer exponents"),
    Sample("pow", _pow(np.array(-3, np.int32)), (_real(2, 2),), "scalar integer exponent"),
    Sample("pow", _pow(np.array([1, 2, 0], np.int32)), (np.array(1.5),), "scalar base, integer exponents"),
    Sample("pow", _pow(np.array([0, 1, 2], np.int32)), (np.zeros(3),), "integer exponents at zero", smooth=False, order=1),
    Sample("pow", lax.pow, (np.zeros(3), np.array([1.0, 2.0, 3.0])), "at zero", smooth=False, order=1),
    *_unary("exp", lax.exp, _real),
    *_unary("exp2", lax.exp2, _real),
    *_unary("expm1", lax.expm1, _real),
    *_unary("log", lax.log, _positive),
    *_unary("log1p", lax.log1p, _positive),
    *_only_in_new_jax(),
    Sample("nextafter", lax.nextafter, (_real(3), _real(3)), order=1),
    Sample("nextafter", lax.nextafter, (_real(3), _real()), "scalar second", order=1),
    *_unary("floor", lax.floor, _real, complex_too=False),
    *_unary("ceil", lax.ceil, _real, complex_too=False),
    *_unary("round", lax.round, _real, complex_too=False),
    Sample("round", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), (_real(3),), "to even"),
    Sample("is_finite", lax.is_finite, (_real(3),)),
    *[
        Sample(name, fun, (_distinct(3), _distinct(3)))
        for name, fun in {"eq": lax.eq, "ne": lax.ne, "ge": lax.ge, "gt": lax.gt, "le": lax.le, "lt": lax.lt}.items()
    ],
    *[
        Sample(name, lambda x, y, name=name: primitive(name).bind(x, y), (_distinct(3), _distinct(3)))
        for name in ("eq_to", "le_to", "lt_to")
    ],
    *[
        Sample(name, fun, (np.array([1, 6, 12], np.int32), np.array([3, 2, 1], np.int32)))
        for name, fun in {
            "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "shift_left": lax.shift_left,
            "shift_right_arithmetic": lax.shift_right_arithmetic, "shift_right_logical": lax.shift_right_logical,
            "mulhi": lax.mulhi,
        }.items()
    ],
    *[
        Sample(name, fun, (np.array([1, 6, 12], np.int32),))
        for name, fun in {"not": lax.bitwise_not, "clz": lax.clz, "population_count": lax.population_count}.items()
    ],
]  # fmt: skip
