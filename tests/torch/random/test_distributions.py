"""All distributions give PyTorch's numbers, and leave the generator where PyTorch leaves it."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from fgrad.torch.random.binomial import binomial
from fgrad.torch.random.gamma import dirichlet, standard_gamma
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.normal import normal
from fgrad.torch.random.poisson import poisson
from tests.torch.random.draws import DRAWS, Draw, numpy_dtype

torch = pytest.importorskip("torch")

SIZES = (0, 1, 15, 16, 17, 24, 33, 1000)


@pytest.fixture(autouse=True)
def generator_back():
    with torch.random.fork_rng():
        yield


def _bytes(tensor: Any) -> bytes:
    same_size = tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor
    return same_size.numpy().tobytes()


def _name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _agree(draw: Draw, size: int, name: str, generator: Generator) -> None:
    ours = draw.ours(size, numpy_dtype(name), generator)
    theirs = draw.theirs(torch, size, getattr(torch, name))
    assert ours.dtype == numpy_dtype(_name(theirs))
    assert ours.shape == tuple(theirs.shape)
    expected = np.frombuffer(_bytes(theirs), ours.dtype).reshape(ours.shape).copy()
    # what is not a number may have any sign
    for values in (ours, expected):
        values[values != values] = 0
    assert ours.tobytes() == expected.tobytes(), (name, size, ours[ours != expected], expected[ours != expected])
    assert np.array_equal(generator.get_state(), torch.get_rng_state().numpy()), (name, size)


@pytest.mark.parametrize("draw", [pytest.param(d, id=d.name) for d in DRAWS])
def test_numbers(draw):
    sizes = [size for size in SIZES if draw.smallest <= size <= draw.largest]
    for seed, (name, size) in enumerate(itertools.product(draw.dtypes, sizes)):
        torch.manual_seed(seed)
        _agree(draw, size, name, Generator().manual_seed(seed))


@pytest.mark.parametrize("draw", [pytest.param(d, id=d.name) for d in DRAWS if d.largest == 70000])
def test_many_numbers(draw):
    for name in (draw.dtypes[0], draw.dtypes[-1]):
        torch.manual_seed(3)
        _agree(draw, 70000, name, Generator().manual_seed(3))


@pytest.mark.parametrize("seed", range(40))
def test_one_after_another(seed):
    choose = np.random.default_rng(seed)
    generator = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    for _ in range(12):
        draw = DRAWS[choose.integers(len(DRAWS))]
        size = int(choose.integers(max(draw.smallest, 1), 60))
        name = str(choose.choice(draw.dtypes))
        if size <= draw.largest:
            _agree(draw, size, name, generator)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (1000,)])
def test_dirichlet(shape, name):
    # the order in which PyTorch sums a row depends on how wide the processor's vectors are
    concentrations = np.linspace(0.2, 5, math.prod(shape)).astype(name).reshape(shape)
    generator = Generator().manual_seed(1)
    torch.manual_seed(1)
    expected = torch._sample_dirichlet(torch.from_numpy(concentrations)).numpy()
    ours = dirichlet(concentrations, generator)
    assert ours.dtype == expected.dtype
    np.testing.assert_array_max_ulp(ours, expected, 4)
    assert np.array_equal(generator.get_state(), torch.get_rng_state().numpy())


def test_binomial_warns_where_the_counts_are_broadcast():
    counts, probabilities = np.array(9.0, np.float32), np.full(3, 0.4, np.float32)
    torch.manual_seed(1)
    with pytest.warns(UserWarning) as theirs:
        expected = torch.binomial(torch.from_numpy(counts), torch.from_numpy(probabilities))
    with pytest.warns(UserWarning) as ours:
        drawn = binomial(counts, probabilities, Generator().manual_seed(1))
    assert str(theirs[0].message).startswith(str(ours[0].message))
    assert np.array_equal(drawn, expected.numpy())


def test_threads_of_pytorch_do_not_matter():
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch.manual_seed(0)
            expected = torch.randn(70001)
            assert np.array_equal(normal((70001,), np.dtype("float32"), Generator().manual_seed(0)), expected.numpy())
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_odd_parameters(name):
    """Parameters outside of the domain are not refused: what comes of them is that of the algorithm."""
    nan, inf = math.nan, math.inf
    for function, oracle, values in (
        (standard_gamma, torch._standard_gamma, [0.0, nan, -1.0, -0.5, 1e-40, -1e-3, inf, 1 / 3]),
        (dirichlet, torch._sample_dirichlet, [0.0, 1e-30, 1.0, nan]),
        (dirichlet, torch._sample_dirichlet, [inf, 1.0]),
        (poisson, torch.poisson, [inf, 1e25, 1e19, 9.3e18, 9.2e18, 1e-300]),
    ):
        array = np.array(values, name)
        generator, other = Generator().manual_seed(6), torch.Generator().manual_seed(6)
        assert np.array_equal(function(array, generator), oracle(torch.from_numpy(array), generator=other).numpy())
        assert np.array_equal(generator.get_state(), other.get_state().numpy())
    counts = np.array([-1, 0, 3, 5, 5, nan], name)
    chances = np.array([0.5, 0.5, -0.1, 1.5, nan, 0], name)
    expected = torch.binomial(torch.from_numpy(counts), torch.from_numpy(chances)).numpy()
    assert np.array_equal(binomial(counts, chances, Generator()), expected, equal_nan=True)
