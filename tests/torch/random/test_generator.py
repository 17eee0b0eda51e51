"""The generator: seeds, states and errors as PyTorch has them."""

import copy
import pickle
import threading
from itertools import chain

import numpy as np
import pytest

from fgrad.torch.random import default
from fgrad.torch.random.generator import Generator
from fgrad.torch.random.normal import normal
from tests.torch.oracle import outcome

torch = pytest.importorskip("torch")

FLOAT = np.dtype("float32")


def _state(generator):
    return generator.get_state().numpy()


def _normals(generator, size):
    return torch.randn(size, generator=generator).numpy()


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**40 + 3, 2**64 - 1, -1, -(2**63)])
def test_seeds(seed):
    ours, theirs = Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    assert ours.initial_seed() == theirs.initial_seed()
    assert np.array_equal(ours.get_state(), _state(theirs))


def test_the_seed_at_first():
    assert Generator().initial_seed() == torch.Generator().initial_seed()
    assert np.array_equal(Generator().get_state(), _state(torch.Generator()))


@pytest.mark.parametrize("seed", ["a", 1.5, None, True, 2**64, -(2**63) - 1, np.int64(3), np.float64(3), [1]], ids=repr)
def test_what_is_no_seed(seed):
    assert outcome(Generator().manual_seed, seed) == outcome(torch.Generator().manual_seed, seed)


@pytest.mark.parametrize("seed", ["a", None, 2**64, -(2**63) - 1, 1.7, True, "12"], ids=repr)
def test_seeds_of_the_default_generator(seed):
    with torch.random.fork_rng(), default.fork_rng():
        ours, theirs = outcome(default.manual_seed, seed), outcome(torch.manual_seed, seed)
        assert ours.raised == theirs.raised
        if ours.raised:
            assert ours.text == theirs.text
        else:
            assert default.initial_seed() == torch.initial_seed()
            assert np.array_equal(default.get_rng_state(), torch.get_rng_state().numpy())


@pytest.mark.parametrize("drawn", [0, 1, 311, 623, 624, 625, 1247, 1248, 5000])
def test_states_are_pytorchs(drawn):
    ours, theirs = Generator().manual_seed(9), torch.Generator().manual_seed(9)
    ours.words(drawn)
    torch.empty(drawn, dtype=torch.int32).random_(generator=theirs)
    assert np.array_equal(ours.get_state(), _state(theirs))
    there = torch.Generator().set_state(torch.from_numpy(ours.get_state()))
    back = Generator().set_state(_state(theirs))
    expected = _normals(theirs, 700)
    assert np.array_equal(normal((700,), FLOAT, ours), expected)
    assert np.array_equal(normal((700,), FLOAT, back), expected)
    assert np.array_equal(_normals(there, 700), expected)
    assert back.initial_seed() == 9


def test_a_normal_left_over_is_part_of_the_state():
    ours, theirs = Generator().manual_seed(4), torch.Generator().manual_seed(4)
    assert np.array_equal(normal((3,), FLOAT, ours), _normals(theirs, 3))
    assert np.array_equal(ours.get_state(), _state(theirs))
    again = Generator().set_state(ours.get_state())
    assert np.array_equal(normal((1,), FLOAT, again), _normals(theirs, 1))
    assert np.array_equal(again.get_state(), _state(theirs))
    assert not np.array_equal(ours.manual_seed(4).get_state(), again.get_state())


@pytest.mark.parametrize(
    "make",
    [
        lambda of: 3,
        lambda of: of(np.zeros(5, np.float32)),
        lambda of: of(np.zeros(5, np.uint8)),
        lambda of: of(np.zeros(5048, np.uint8)),
        lambda of: of(np.zeros(5056, np.uint8)),
        lambda of: of(np.zeros((5056, 2), np.uint8)[:, 0]),
    ],
)
def test_what_is_no_state(make):
    ours = outcome(Generator().set_state, make(lambda array: array))
    assert ours == outcome(torch.Generator().set_state, make(torch.from_numpy))
    assert ours.raised


@pytest.mark.parametrize(("method", "arguments"), [("get_offset", ()), ("set_offset", (1,))])
def test_offsets_are_refused(method, arguments):
    ours = outcome(getattr(Generator(), method), *arguments)
    assert ours == outcome(getattr(torch.Generator(), method), *arguments)


@pytest.mark.parametrize(
    "copied", [Generator.clone_state, copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies_go_their_own_way(copied):
    generator = Generator().manual_seed(5)
    normal((3,), FLOAT, generator)
    other = copied(generator)
    assert np.array_equal(other.get_state(), generator.get_state())
    expected = normal((5,), FLOAT, generator)
    assert not np.array_equal(other.get_state(), generator.get_state())
    assert np.array_equal(normal((5,), FLOAT, other), expected)


def test_entropy():
    generator = Generator()
    seed = generator.seed()
    assert seed == generator.initial_seed() != generator.seed()
    assert 0 <= seed < 2**64


def test_one_by_one_draws_as_many_as_were_used():
    generator, other = Generator().manual_seed(1), Generator().manual_seed(1)
    with generator.one_by_one() as draw:
        pass
    assert np.array_equal(generator.get_state(), other.get_state())
    with generator.one_by_one() as draw:
        drawn = [draw() for _ in range(1000)]
    assert drawn == other.doubles(1000).tolist()
    assert np.array_equal(generator.get_state(), other.get_state())
    with pytest.raises(ZeroDivisionError), generator.one_by_one() as draw:
        draw()
        raise ZeroDivisionError
    other.doubles(1)
    assert np.array_equal(generator.get_state(), other.get_state())


def test_fork():
    default.manual_seed(3)
    before = default.get_rng_state()
    with default.fork_rng():
        default.default_generator.words(3)
        assert not np.array_equal(default.get_rng_state(), before)
    assert np.array_equal(default.get_rng_state(), before)
    with pytest.raises(KeyError), default.fork_rng(devices=[]):
        default.seed()
        raise KeyError
    assert np.array_equal(default.get_rng_state(), before)
    with default.fork_rng(enabled=False):
        default.default_generator.words(3)
    assert not np.array_equal(default.get_rng_state(), before)
    default.set_rng_state(before)
    assert np.array_equal(default.get_rng_state(), before)


def test_threads_share_a_generator():
    generator = Generator().manual_seed(0)
    drawn = [[] for _ in range(4)]

    def work(into):
        for _ in range(50):
            with generator.one_by_one() as draw:
                into.extend(draw() for _ in range(7))
            into.extend(generator.doubles(3).tolist())

    threads = [threading.Thread(target=work, args=(into,)) for into in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(chain.from_iterable(drawn)) == sorted(Generator().manual_seed(0).doubles(2000).tolist())


def test_a_state_is_lent_to_one_thread():
    generator = Generator().manual_seed(0)
    expected = Generator().manual_seed(0).doubles(3).tolist()
    drawn = []

    def work():
        assert generator.engine is None
        drawn.extend(generator.doubles(3).tolist())

    with generator.lent(Generator().manual_seed(7).saved()) as engine:
        assert generator.engine is engine
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert drawn == expected and generator.engine is None
