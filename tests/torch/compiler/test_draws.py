"""Random numbers as a part of a program: those of the generator, to the bit, and no call of the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import fgrad.torch as torch
from fgrad.torch.nn import functional as F

#: draws that are arithmetic on the generator's words; few, many, and with numbers left over
DRAWS = {
    "uniform": lambda: (torch.rand(3), torch.empty(700).uniform_(-1, 3), torch.rand(5, dtype=torch.float16)),
    "events": lambda: (
        torch.bernoulli(torch.full((9,), 0.4)),
        torch.ones(9).bernoulli_(0.3),
        F.dropout(torch.ones(40)),
    ),
    "normal": lambda: (torch.randn(37), torch.empty(5, 4).t().normal_(1, 2.5)),
    "few normal": lambda: (torch.randn(3), torch.randn(1), torch.randn(4), torch.randn(1, dtype=torch.complex64)),
    "integers": lambda: (torch.randint(-5, 9, (7,)), torch.randperm(50), torch.empty(9).random_()),
    "inverses": lambda: (torch.empty(30).exponential_(2.0), torch.empty(30).geometric_(0.2), torch.empty(3).cauchy_()),
}


def in_a_program(draw):
    torch.manual_seed(3)
    torch.rand(100)
    function, state = torch.pure(draw)()
    return function, state, jax.jit(function)(state)


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_the_generator(name):
    function, _, (state, found) = in_a_program(DRAWS[name])
    for one, other in zip(found, DRAWS[name](), strict=True):
        assert np.array_equal(one, other.numpy())
    assert np.array_equal(state["generator"], torch.get_rng_state().numpy())
    assert "callback" not in str(function.graph)


def test_wide_draws_are_those_of_the_generator():
    with jax.enable_x64(True):
        draw = lambda: (torch.rand(5, dtype=torch.float64), torch.randint(0, 2**40, (7,)))  # noqa: E731
        _, _, (state, found) = in_a_program(draw)
        for one, other in zip(found, draw(), strict=True):
            assert np.array_equal(one, other.numpy())
    assert np.array_equal(state["generator"], torch.get_rng_state().numpy())


def test_a_draw_that_depends_on_numbers_calls_the_host():
    def draw():
        return torch.poisson(torch.full((5,), 3.0)), torch.multinomial(torch.ones(5), 3), torch.rand(2)

    function, _, (state, found) = in_a_program(draw)
    for one, other in zip(found, draw(), strict=True):
        assert np.array_equal(one, other.numpy())
    assert np.array_equal(state["generator"], torch.get_rng_state().numpy())
    assert str(function.graph).count("pure_callback") == 2
    assert torch.capture(draw)() == torch.capture(draw)()


def test_a_program_that_draws_is_exported():
    x = torch.ones(20)
    torch.manual_seed(0)
    function, state = torch.pure(lambda x: F.dropout(x, 0.5))(x)
    exported = export.export(jax.jit(function))(state, x.numpy())
    for _ in range(2):
        state, found = exported.call(state, x.numpy())
        assert np.array_equal(found, F.dropout(x, 0.5).numpy())


def test_generators_are_mapped():
    function, _ = torch.pure(lambda: torch.randn(3))()
    states = []
    for seed in range(3):
        torch.manual_seed(seed)
        torch.randn(2 * seed + 1)  # each with another number of words left, and with a number left over
        states.append(function.state())
    _, found = jax.jit(jax.vmap(function))(jax.tree.map(lambda *s: jnp.stack(s), *states))
    for seed, each in enumerate(found):
        torch.manual_seed(seed)
        torch.randn(2 * seed + 1)
        assert np.array_equal(each, torch.randn(3).numpy())


def test_an_error_of_a_draw_is_that_of_the_call():
    with pytest.raises(RuntimeError, match="bernoulli_ expects p to be in"):
        torch.pure(lambda: torch.ones(2).bernoulli_(2.0))()
    assert torch.default_generator.engine is None
