"""Random numbers as a part of a program: those of the generator, to the bit, and no call of the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import fgrad.torch as torch
from fgrad.torch.compiler.backward_program import BackwardProgram
from fgrad.torch.nn import functional as F
from fgrad.torch.utils.checkpoint import checkpoint

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


def masked_twice(use_reentrant):
    """A step whose gradient is that of the mask of the forward only if the recomputation draws the same mask."""
    w = torch.ones(30, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)

    def step(x):
        optimizer.zero_grad()
        more = F.dropout(x, 0.5)
        y = checkpoint(lambda w: F.dropout(w, 0.5) * 1, w, use_reentrant=use_reentrant)
        (y + more).sum().backward()
        optimizer.step()
        return y.detach(), more, torch.rand(2)

    return w, step


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_draws_the_same_numbers_again(use_reentrant):
    found = []
    for wrap in (lambda f: f, torch.compile):
        w, step = masked_twice(use_reentrant)
        call = wrap(step)
        torch.manual_seed(0)
        for _ in range(3):
            found.append([x.tolist() for x in (*call(torch.ones(30)), w)])
    assert found[:3] == found[3:]

    w, step = masked_twice(use_reentrant)
    torch.manual_seed(0)
    function, state = torch.pure(step)(torch.ones(30))
    for wanted in found[:3]:
        state, results = function(state, jnp.ones(30))
        assert [x.tolist() for x in results] == wanted[:-1] and state["w"].tolist() == wanted[-1]


def again(x):
    state = torch.get_rng_state()
    first = torch.rand(2)
    torch.set_rng_state(state)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        inside = torch.rand(2)
    return first, inside, torch.rand(2), x


def seeded(x):
    before = torch.rand(2)
    torch.manual_seed(0)
    return before, torch.rand(2), x


def own_generators(x):
    generator, other = torch.Generator().manual_seed(1), torch.Generator()
    copy = generator.clone_state()
    return tuple(torch.rand(2, generator=each) for each in (generator, other, copy, generator)) + (torch.rand(2), x)


def seeded_in_pieces(x):
    normal = torch.normal(x, torch.ones(2))
    torch.manual_seed(0)
    more = torch.rand(2) if x.sum() < 100 else x
    state = torch.get_rng_state()
    torch.rand(2)
    torch.set_rng_state(state)
    return normal, more, torch.rand(2)


@pytest.mark.parametrize("function", [again, seeded, own_generators, seeded_in_pieces])
def test_states_that_are_read_and_set_inside(function):
    calls = []
    for call in (function, torch.compile(function)):
        torch.manual_seed(5)
        calls.append([[x.tolist() for x in call(torch.zeros(2))] + torch.rand(1).tolist() for _ in range(4)])
    assert calls[0] == calls[1]
    if function is seeded_in_pieces:
        return
    torch.manual_seed(5)
    pure, state = torch.pure(function)(torch.zeros(2))
    for wanted in calls[0]:
        torch.default_generator.set_state(torch.tensor(np.asarray(state["generator"])))
        state, results = pure(state, jnp.zeros(2))
        assert [x.tolist() for x in results] == wanted[:-1]
        torch.default_generator.set_state(torch.tensor(np.asarray(state["generator"])))
        assert torch.rand(1).tolist() == wanted[-1:]
        state = {**state, "generator": torch.get_rng_state().numpy()}


def test_a_state_that_is_only_read_is_no_part_of_a_pure_function():
    w = torch.ones(2, requires_grad=True)

    def loss(x):
        value = checkpoint(lambda x: (w * x).sin().sum(), x, use_reentrant=False)
        return torch.autograd.grad(value, w)[0]

    _, state = torch.pure(loss)(torch.ones(2))
    assert list(state) == ["w"]


def test_a_seed_of_the_system_is_no_part_of_a_program():
    compiled = torch.compile(lambda: (torch.seed(), torch.initial_seed(), torch.rand(1).item()))
    found = [compiled() for _ in range(3)]
    assert len({x for _, _, x in found}) == 3 and all(seed == same for seed, same, _ in found)
    with pytest.raises(RuntimeError, match="the state of a generator, are read"):
        torch.pure(lambda: torch.initial_seed())()
    with pytest.raises(RuntimeError, match="state size to be 3"):
        torch.pure(lambda: torch.set_rng_state(torch.zeros(3, dtype=torch.uint8)))()


@pytest.mark.parametrize("in_pieces", [False, True])
def test_parameters_made_inside_keep_64_bits(in_pieces):
    def draw(log):
        drawn = torch.multinomial(torch.tensor([0.3, 0.7 - 1e-12, 1e-12], dtype=torch.float64), 1)
        return drawn, log.append(1) if in_pieces else None

    log, found = [], []
    for run in (draw, torch.compile(draw)):
        torch.manual_seed(0)
        found.append([run(log)[0].item() for _ in range(3)])
    assert found[0] == found[1]


def test_a_pending_normal_number_is_used_once():
    concentrations = torch.tensor([1.5, 0.5, 2.5])
    found = []
    for run in (torch._standard_gamma, torch.compile(torch._standard_gamma)):
        torch.manual_seed(3)
        found.append([run(concentrations).tolist() for _ in range(3)])
    assert np.allclose(found[0], found[1])


def test_an_interrupt_after_the_effects_leaves_the_generator_after_the_call(monkeypatch):
    def interrupted(self, *args):
        raise KeyboardInterrupt

    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout())
    compiled, x = torch.compile(module), torch.ones(4, 3)
    for _ in range(3):
        compiled(x)
    state = torch.get_rng_state()
    module[2](torch.ones(4, 3))
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    monkeypatch.setattr(BackwardProgram, "attach", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled(x)
    assert module[1].num_batches_tracked.item() == 4 and torch.get_rng_state().tolist() == after.tolist()
