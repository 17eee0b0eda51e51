"""Bad parameters raise PyTorch's errors, word for word, and at the same point of the stream."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

from fgrad.mutable.types import dtypes
from fgrad.torch.random.binomial import binomial
from fgrad.torch.random.gamma import dirichlet, standard_gamma
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.integers import random, random_range, randperm
from fgrad.torch.random.inversion import cauchy, exponential, geometric
from fgrad.torch.random.multinomial import multinomial
from fgrad.torch.random.normal import log_normal, normal
from fgrad.torch.random.poisson import poisson
from fgrad.torch.random.uniform import bernoulli, uniform
from tests.torch.oracle import outcome

torch = pytest.importorskip("torch")

NAN, INF = float("nan"), float("inf")
LOWEST = -(2**63)
FUNCTIONS = {
    "uniform_": uniform,
    "normal_": normal,
    "log_normal_": log_normal,
    "exponential_": exponential,
    "cauchy_": cauchy,
    "geometric_": geometric,
    "bernoulli_": bernoulli,
}
# complex32 has no NumPy type
NAMES = [each.name for each in dtypes.ALL if each.name != "complex32"]


def _compare(ours: Any, theirs: Any, *context: Any) -> None:
    """Both raise the same, or neither raises; and both warn of the same."""
    with warnings.catch_warnings(record=True) as our_warnings:
        warnings.simplefilter("always")
        mine = outcome(ours)
    with warnings.catch_warnings(record=True) as their_warnings:
        warnings.simplefilter("always")
        expected = outcome(theirs)
    assert (context, mine.raised) == (context, expected.raised)
    if mine.raised:
        assert (context, mine.text) == (context, expected.text)
    texts = [str(w.message).split(" (Triggered internally")[0] for w in their_warnings]
    assert (context, [str(w.message) for w in our_warnings]) == (context, texts)


@pytest.mark.parametrize("method", [*FUNCTIONS, "random_"])
def test_types(method):
    for name in NAMES:
        parameters = (0.3,) if method == "geometric_" else ()
        function = FUNCTIONS.get(method, random)
        for size in (0, 3, 20):
            _compare(
                lambda: function((size,), np.dtype(dtypes.named(name).numpy), Generator(), *parameters),
                lambda: getattr(torch.empty(size, dtype=getattr(torch, name)), method)(*parameters),
                name,
                size,
            )


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("uniform_", (1, 0)),
        ("uniform_", (NAN, 0)),
        ("uniform_", (0, NAN)),
        ("uniform_", (-INF, 0)),
        ("uniform_", (-60000, 60000)),
        ("uniform_", (-3e38, 3e38)),
        ("uniform_", (-1e39, 0)),
        ("uniform_", (0, 1e39)),
        ("uniform_", (0.1234567891, -1e-7)),
        ("uniform_", (-1.7e308, 1.7e308)),
        ("normal_", (0, -1)),
        ("normal_", (0, -0.123456789)),
        ("normal_", (0, NAN)),
        ("log_normal_", (0, 0)),
        ("log_normal_", (0, -1e-10)),
        ("exponential_", (0,)),
        ("exponential_", (-1e20,)),
        ("exponential_", (NAN,)),
        ("cauchy_", (0, 0)),
        ("cauchy_", (0, -2.5)),
        ("geometric_", (0,)),
        ("geometric_", (1,)),
        ("geometric_", (1.5,)),
        ("geometric_", (NAN,)),
        ("bernoulli_", (1.5,)),
        ("bernoulli_", (-1,)),
        ("bernoulli_", (NAN,)),
    ],
)
def test_parameters(method, parameters):
    for name in ("float32", "float64", "float16", "bfloat16", "complex64"):
        for size in (0, 3, 20):
            _compare(
                lambda: FUNCTIONS[method]((size,), np.dtype(dtypes.named(name).numpy), Generator(), *parameters),
                lambda: getattr(torch.empty(size, dtype=getattr(torch, name)), method)(*parameters),
                name,
                size,
            )


@pytest.mark.parametrize(
    ("low", "high"),
    [
        *((5, 5), (5, 4), (0, 0), (0, 1), (0, 2), (0, 3), (-1, 1), (0, 128), (0, 129), (0, 256), (0, 257)),
        *((-128, 0), (-129, 0), (0, 2**15 + 1), (0, 2**16), (0, 2**31), (0, 2**31 + 1), (0, 2**32 + 1)),
        *((0, 60000), (0, 65504), (0, 65505), (0, 10**6), (2048, 2049), (2049, 2050), (4097, 4098), (-4098, -4097)),
        *((0, 2**40), (-(2**40), 2**30), (LOWEST, 2**63 - 1), (0, 2**63 - 1), (2**62, 2**62 + 1), (257, 258)),
        *((LOWEST, None), (-1, None), (0, None), (1, None), (2, None), (5, None), (500, None), (2**30, None)),
        *((2**62, None), (-(2**30) - 1, None), (2**24 - 1, None), (2**11, None), (-257, None)),
    ],
)
def test_ranges(low, high):
    for name in NAMES:
        for size in (0, 3):
            _compare(
                lambda: random_range((size,), np.dtype(dtypes.named(name).numpy), Generator(), low, high),
                lambda: torch.empty(size, dtype=getattr(torch, name)).random_(low, high),
                name,
                size,
            )


@pytest.mark.parametrize("count", [-1, 0, 2, 128, 129, 256, 2050])
def test_permutations(count):
    for name in NAMES:
        _compare(
            lambda: randperm(count, np.dtype(dtypes.named(name).numpy), Generator()),
            lambda: torch.randperm(count, dtype=getattr(torch, name)),
            name,
        )


@pytest.mark.parametrize(("name", "count"), [("float32", 2**24 + 2), ("int16", 2**15)])
def test_long_permutations(name, count):
    _compare(
        lambda: randperm(count, np.dtype(name), Generator()),
        lambda: torch.randperm(count, dtype=getattr(torch, name)),
    )


@pytest.mark.parametrize(
    "weights",
    [
        1.0,
        [[[1.0]]],
        [1, 2],
        [1.0, -1.0],
        [1.0, NAN],
        [NAN, -1.0],
        [INF, -1.0],
        [-1.0, NAN],
        [1.0, INF],
        [-INF, 2.0, 1.0],
        [0.0, 0.0, 0.0],
        [[0.0, 0.0], [1.0, 1.0]],
        [[1.0, 1.0], [-1.0, 1.0]],
        [],
        [[], []],
        np.ones((0, 3)),
        np.ones((0, 0)),
        [True, False],
        [1j, 2],
    ],
    ids=repr,
)
def test_multinomial(weights):
    array = np.array(weights)
    for count, replacement in itertools.product([-1, 0, 1, 2, 3, 4], [False, True]):
        _compare(
            lambda: multinomial(array, count, replacement, Generator()),
            lambda: torch.multinomial(torch.from_numpy(array), count, replacement),
            count,
            replacement,
        )


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_with_too_many_categories(replacement):
    weights = np.ones(2**24 + 1, np.float16)
    _compare(
        lambda: multinomial(weights, 2, replacement, Generator()),
        lambda: torch.multinomial(torch.from_numpy(weights), 2, replacement),
    )


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [0.5, -1.0, 1.0], [1.0, NAN], [0.5, 1.0, 1.5]], ids=repr)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (poisson, torch.poisson),
        (lambda p, generator: bernoulli(p.shape, p.dtype, generator, p), torch.bernoulli),
        (
            lambda p, generator: bernoulli(p.shape, np.dtype("float32"), generator, p),
            lambda p, generator: torch.empty(p.shape).bernoulli_(p, generator=generator),
        ),
        (
            lambda p, generator: bernoulli(p.shape, np.dtype("uint16"), generator, p),
            lambda p, generator: torch.empty(p.shape, dtype=torch.uint16).bernoulli_(p, generator=generator),
        ),
    ],
    ids=["poisson", "bernoulli", "bernoulli into floats", "bernoulli into uint16"],
)
def test_elements(ours, theirs, values):
    for name in ("float32", "float64", "float16", "int64", "complex64", "bool"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.array(values).astype(name)
        generator, other = Generator().manual_seed(2), torch.Generator().manual_seed(2)
        _compare(lambda: ours(array, generator), lambda: theirs(torch.from_numpy(array), generator=other), name)
        assert np.array_equal(generator.get_state(), other.get_state().numpy())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (standard_gamma, torch._standard_gamma),
        (dirichlet, torch._sample_dirichlet),
        (
            lambda p, generator: binomial(p, p, generator),
            lambda p, generator: torch.binomial(p, p, generator=generator),
        ),
        (
            lambda p, generator: binomial(p, np.ones(p.shape, np.float32), generator),
            lambda p, generator: torch.binomial(p, torch.ones(p.shape), generator=generator),
        ),
        (
            lambda p, generator: binomial(np.ones(p.shape, np.float32), p, generator),
            lambda p, generator: torch.binomial(torch.ones(p.shape), p, generator=generator),
        ),
    ],
    ids=["gamma", "dirichlet", "binomial", "binomial counts", "binomial probabilities"],
)
def test_parameter_types(ours, theirs):
    for name in NAMES:
        for size in (0, 2):
            array = np.ones(size, dtypes.named(name).numpy)
            tensor = torch.ones(size, dtype=getattr(torch, name))
            _compare(lambda: ours(array, Generator()), lambda: theirs(tensor, generator=torch.Generator()), name, size)
