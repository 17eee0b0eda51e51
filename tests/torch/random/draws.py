"""Every distribution with its parameters, once over our arrays and once as PyTorch spells it."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from attrs import frozen

from fgrad.torch.random.binomial import binomial
from fgrad.torch.random.gamma import standard_gamma
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.integers import random, random_range, randperm
from fgrad.torch.random.inversion import cauchy, exponential, geometric
from fgrad.torch.random.multinomial import multinomial
from fgrad.torch.random.normal import log_normal, normal
from fgrad.torch.random.poisson import poisson
from fgrad.torch.random.uniform import bernoulli, dropout_noise, uniform

REAL = ("float32", "float64", "float16", "bfloat16")
WIDE = ("float32", "float64")
INTEGER = ("uint8", "int8", "int16", "int32", "int64")
LOWEST = -(2**63)
NAN, INF = float("nan"), float("inf")


@frozen
class Draw:
    """``ours(size, dtype, generator)`` and ``theirs(torch, size, dtype)``, the latter from the default generator."""

    name: str
    ours: Callable[[int, np.dtype[Any], Generator], np.ndarray]
    theirs: Callable[[Any, int, Any], Any]
    dtypes: tuple[str, ...]
    largest: int = 70000
    smallest: int = 0


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(jnp.bfloat16) if name == "bfloat16" else np.dtype(name)


def _filled(name: str, method: str, function: Any, parameters: tuple[Any, ...], dtypes: tuple[str, ...]) -> Draw:
    def ours(size: int, dtype: np.dtype[Any], generator: Generator) -> np.ndarray:
        return function((size,), dtype, generator, *parameters)

    def theirs(torch: Any, size: int, dtype: Any) -> Any:
        return getattr(torch.empty(size, dtype=dtype), method)(*parameters)

    return Draw(f"{name}{parameters}", ours, theirs, dtypes)


def _ramp(size: int, low: float, high: float, dtype: np.dtype[Any]) -> np.ndarray:
    """Parameters that differ from element to element, in no monotonic order."""
    return (low + (high - low) * (np.arange(size) * 0.6180339887 % 1.0)).astype(np.float32).astype(dtype)


def _tensor(torch: Any, array: np.ndarray, dtype: Any) -> Any:
    return torch.tensor(array.astype(np.float64)).to(dtype)


def _by_parameters(
    name: str,
    low: float,
    high: float,
    ours: Any,
    theirs: Any,
    dtypes: tuple[str, ...],
) -> Draw:
    return Draw(
        f"{name}[{low}, {high}]",
        lambda size, dtype, generator: ours(_ramp(size, low, high, dtype), generator),
        lambda torch, size, dtype: theirs(
            torch, _tensor(torch, _ramp(size, low, high, np.dtype(np.float64)).astype(np.float32), dtype)
        ),
        dtypes,
        largest=1000,
    )


def _strided(torch: Any, size: int, dtype: Any) -> Any:
    return torch.empty(size, 2, dtype=dtype)[:, 0]


FILLED = [
    *(_filled("uniform", "uniform_", uniform, p, REAL) for p in ((), (0, 3), (-1.5, 2.7), (5, 5), (-0.3, 1000.1))),
    *(_filled("uniform", "uniform_", uniform, p, ("float64",)) for p in ((-1e308, 5e307), (-1e-300, 3e-300))),
    *(_filled("normal", "normal_", normal, p, REAL) for p in ((), (0, 2), (1.7, 0.3), (-100, 1e-3), (2, 0))),
    *(_filled("normal", "normal_", normal, p, WIDE) for p in ((INF, 1), (0, INF), (NAN, 1), (1e-40, 1e-42))),
    *(_filled("log_normal", "log_normal_", log_normal, p, WIDE) for p in ((800, 1), (-800, 1))),
    *(_filled("cauchy", "cauchy_", cauchy, p, WIDE) for p in ((NAN, 1), (0, INF))),
    *(_filled("log_normal", "log_normal_", log_normal, p, REAL) for p in ((), (0.3, 0.7))),
    *(_filled("exponential", "exponential_", exponential, p, REAL) for p in ((), (0.3,), (INF,), (1e-40,))),
    *(_filled("cauchy", "cauchy_", cauchy, p, REAL) for p in ((), (3.3, 0.7))),
    *(_filled("geometric", "geometric_", geometric, p, REAL + INTEGER) for p in ((0.3,), (1e-5,), (1e-11,))),
    *(_filled("bernoulli", "bernoulli_", bernoulli, p, (*REAL, *INTEGER, "bool")) for p in ((), (0,), (0.3,), (1,))),
    _filled("random", "random_", random, (), (*REAL, *INTEGER, "bool")),
    _filled("random_range", "random_", random_range, (0, 100), REAL + INTEGER),
    _filled("random_range", "random_", random_range, (-7, 30), (*REAL, "int8", "int16", "int32", "int64")),
    _filled("random_range", "random_", random_range, (0, 2), ("bool", "uint16", "uint32", "uint64")),
    _filled("random_range", "random_", random_range, (3, None), (*REAL, *INTEGER, "uint16", "uint32")),
    _filled("random_range", "random_", random_range, (0, 2**28 - 1), ("int32", "int64")),
    _filled("random_range", "random_", random_range, (0, 2**28), ("int32", "int64")),
    _filled("random_range", "random_", random_range, (-(2**62), 2**62 + 5), ("int64",)),
    _filled("random_range", "random_", random_range, (LOWEST, 2**63 - 1), ("int64",)),
    _filled("random_range", "random_", random_range, (LOWEST + 1, None), ("int64",)),
    _filled("random_range", "random_", random_range, (LOWEST, None), ("int64", "float32", "float64", "bfloat16")),
]

OTHERS = [
    Draw(
        "normal, strided",
        lambda size, dtype, generator: normal((size,), dtype, generator, 0.7, 1.3, contiguous=size == 1),
        lambda torch, size, dtype: _strided(torch, size, dtype).normal_(0.7, 1.3),
        REAL,
        smallest=1,
    ),
    Draw(
        "randn",
        lambda size, dtype, generator: normal((size, 3), dtype, generator),
        lambda torch, size, dtype: torch.randn(size, 3, dtype=dtype),
        (*REAL, "complex64", "complex128"),
    ),
    Draw(
        "rand",
        lambda size, dtype, generator: uniform((3, size), dtype, generator),
        lambda torch, size, dtype: torch.rand(3, size, dtype=dtype),
        (*REAL, "complex64", "complex128"),
    ),
    Draw(
        "randint",
        lambda size, dtype, generator: random_range((size,), dtype, generator, -5, 120),
        lambda torch, size, dtype: torch.randint(-5, 120, (size,), dtype=dtype),
        ("int8", "int32", "int64", "float32"),
    ),
    Draw(
        "randperm",
        lambda size, dtype, generator: randperm(size, dtype, generator),
        lambda torch, size, dtype: torch.randperm(size, dtype=dtype),
        ("int64", "int32", "float32", "float64"),
    ),
    Draw(
        "randperm, small types",
        lambda size, dtype, generator: randperm(size, dtype, generator),
        lambda torch, size, dtype: torch.randperm(size, dtype=dtype),
        ("int16", "uint8", "int8", "float16", "bfloat16"),
        largest=33,
    ),
    Draw(
        "bernoulli, a float32 each",
        lambda size, dtype, generator: bernoulli((size,), dtype, generator, _ramp(size, 0, 1, np.dtype(np.float32))),
        lambda torch, size, dtype: torch.empty(size, dtype=dtype).bernoulli_(
            torch.tensor(_ramp(size, 0, 1, np.dtype(np.float32)))
        ),
        (*REAL, *INTEGER, "bool"),
    ),
    Draw(
        "bernoulli, their own type",
        lambda size, dtype, generator: bernoulli((size,), dtype, generator, _ramp(size, 0, 1, dtype)),
        lambda torch, size, dtype: torch.bernoulli(_tensor(torch, _ramp(size, 0, 1, np.dtype(np.float32)), dtype)),
        REAL,
    ),
    Draw(
        "dropout",
        lambda size, dtype, generator: dropout_noise((size,), dtype, generator, 0.3),
        lambda torch, size, dtype: torch.nn.functional.dropout(torch.ones(size, dtype=dtype), 0.3),
        REAL,
    ),
    *(
        Draw(
            f"multinomial {shape} {count} {replacement}",
            lambda size, dtype, generator, shape=shape, count=count, replacement=replacement: multinomial(
                _ramp(size, 0, 3, dtype).reshape(shape), count, replacement, generator
            ),
            lambda torch, size, dtype, shape=shape, count=count, replacement=replacement: torch.multinomial(
                _tensor(torch, _ramp(size, 0, 3, np.dtype(np.float32)), dtype).reshape(shape), count, replacement
            ),
            dtypes,
            largest=1000,
            smallest=24,
        )
        for shape, count, replacement, dtypes in (
            ((-1,), 1, False, REAL),
            ((-1,), 1, True, REAL),
            ((-1,), 300, True, REAL),
            ((1, -1), 5, True, WIDE),
            ((-1,), 20, False, WIDE),
            ((1, -1), 20, False, WIDE),
        )
    ),
    *(
        _by_parameters("poisson", low, high, poisson, lambda torch, rates: torch.poisson(rates), REAL)
        for low, high in ((0, 3), (0, 30), (10, 200), (1e3, 6e4))
    ),
    *(
        _by_parameters("gamma", low, high, standard_gamma, lambda torch, shapes: torch._standard_gamma(shapes), WIDE)
        for low, high in ((0, 0.1), (0, 3), (1, 100))
    ),
    *(
        Draw(
            f"binomial {count}",
            lambda size, dtype, generator, count=count: binomial(
                np.full(size, count, dtype), _ramp(size, -0.01, 1.01, dtype), generator
            ),
            lambda torch, size, dtype, count=count: torch.binomial(
                torch.full((size,), count, dtype=dtype),
                _tensor(torch, _ramp(size, -0.01, 1.01, numpy_dtype(str(dtype)[6:])), dtype),
            ),
            WIDE,
            largest=1000,
        )
        for count in (0.0, 1.0, 10.0, 37.0, 1000.0, 1e6)
    ),
]

DRAWS = FILLED + OTHERS
