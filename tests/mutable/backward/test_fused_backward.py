"""A backward that runs as one program does what the engine does, and leaves to the engine what it cannot do."""

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

import fgrad
import fgrad.torch as torch
from fgrad.mutable.backward import fused_backward
from fgrad.mutable.backward.accumulate import accumulate_grad
from fgrad.mutable.backward.fused_backward import FusibleBackward
from fgrad.run.background import wait_for_compilations
from fgrad.run.policy import POLICIES, Policy, active
from tests.torch.mirror import Player, alike, described, random_program


def priced(rent: float) -> Policy:
    """A policy without NumPy, under which nothing waits, so that the second backward may be compiled."""
    default = POLICIES["default"]
    operations = evolve(default.operations, numpy_excess=-inf)
    return Policy(operations=operations, backward_runs=1, pieces_rent=rent, deferred_size=inf)


#: backward is fused from the second time on, and interpreted
SECOND = evolve(POLICIES["fused backward"], backward_runs=1)
#: how many runs show the engine, the first fused run, and one more
RUNS = 3


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Backward is fused from the second time on; the list tells of each backward that could be whether it was."""
    ran: list[bool] = []
    run = FusibleBackward.run

    def counted(backward: FusibleBackward, *args: Any) -> bool:
        ran.append(run(backward, *args))
        return ran[-1]

    monkeypatch.setattr(FusibleBackward, "run", counted)
    fused_backward._backwards.clear()
    with fgrad.policy(SECOND):
        yield ran
    fused_backward._backwards.clear()


def shown(leaves: list[torch.Tensor]) -> list[Any]:
    """All that can be seen of the leaves' gradients."""
    grads = [leaf.grad for leaf in leaves]
    return [g if g is None else (g.numpy().copy(), g.stride(), g._version, g.is_leaf, g.requires_grad) for g in grads]


def same(a: list[Any], b: list[Any]) -> None:
    for x, y in zip(a, b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_allclose(x[0], y[0], rtol=1e-6)
            assert x[1:] == y[1:]


def leaf(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape).div(7).requires_grad_()


PROGRAMS: dict[str, Callable[[], tuple[torch.Tensor, list[torch.Tensor]]]] = {
    "product": lambda: (lambda x, y: ((x * y).sum(), [x, y]))(leaf(3), leaf(3)),
    "used twice": lambda: (lambda x: ((x * x + x).sum(), [x]))(leaf(3)),
    "passed on": lambda: (lambda x, y: ((x + y).sum(), [x, y]))(leaf(2, 3), leaf(2, 3)),
    "transposed": lambda: (lambda x, y: ((x @ y.t()).tanh().sum(), [x, y]))(leaf(2, 3), leaf(4, 3)),
    "broadcast": lambda: (lambda x, y: ((x * y).sum(), [x, y]))(leaf(2, 3), leaf(3)),
    "part of a tensor": lambda: (lambda x: (x[1:].exp().sum() + x[0, 0], [x]))(leaf(3, 2)),
    "some outputs only": lambda: (lambda x: (x.unbind(0)[1].sum(), [x]))(leaf(3, 2)),
    "complex": lambda: (lambda x: ((x * torch.tensor(1j)).abs().sum(), [x]))(leaf(3)),
    "no gradient": lambda: (lambda x, y: ((x.detach() * y).sum(), [x, y]))(leaf(3), leaf(3)),
    "channels last": lambda: (
        lambda x: ((x * 2).sum(), [x])
    )(leaf(1, 2, 3, 4).detach().to(memory_format=torch.channels_last).requires_grad_()),
    "many joined": lambda: (lambda x: (torch.stack([x * k for k in range(20)]).exp().sum(), [x]))(leaf(3)),
    "many in a row": lambda: (lambda x: (torch.cat([x * k for k in range(20)], 1).exp().sum(), [x]))(leaf(2, 3)),
    "cross entropy": lambda: (
        lambda x: (torch.nn.functional.cross_entropy(x, torch.tensor([0, 2])), [x])
    )(leaf(2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_fused_is_what_the_engine_gives(name: str, fused: list[bool]):
    found = []
    for _ in range(RUNS):
        loss, leaves = PROGRAMS[name]()
        loss.backward()
        found.append(shown(leaves))
    assert fused == [False, True, True]
    same(found[0], found[1])
    same(found[0], found[2])


@pytest.mark.parametrize("name", PROGRAMS)
def test_fused_adds_to_gradients(name: str, fused: list[bool]):
    loss, leaves = PROGRAMS[name]()
    grads = []
    for _ in range(4):
        loss.backward(retain_graph=True)
        grads.append(shown(leaves))
    assert fused == [False, False, True, True]
    for k, later in enumerate(grads):
        for first, then in zip(grads[0], later, strict=True):
            if first is not None:
                np.testing.assert_allclose(then[0], (k + 1) * first[0], rtol=1e-6)
                assert then[1] == first[1] and then[2] == first[2] + k


def test_several_roots_and_their_gradients(fused: list[bool]):
    for _ in range(RUNS):
        x = leaf(2)
        y = x * 3
        torch.autograd.backward([y, y.exp().sum()], [torch.tensor([1.0, 2.0]), None])
        expected = 3 * (np.array([1.0, 2.0]) + np.exp(3 * x.detach().numpy()))
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
    assert fused == [False, True, True]


def test_what_was_written_raises(fused: list[bool]):
    for k in range(RUNS):
        x = leaf(3)
        y = x.exp()
        loss = y.sum()
        if k == RUNS - 1:
            y.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
            assert x.grad is None
        else:
            loss.backward()
    assert fused == [False, True, False]


def test_a_second_time_raises(fused: list[bool]):
    for _ in range(RUNS):
        x = leaf(3)
        loss = x.exp().sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()
    assert fused[2]


def test_a_graph_is_freed(fused: list[bool]):
    for _ in range(RUNS):
        x = leaf(3)
        y = x.exp()
        saved = weakref.ref(y)
        loss = y.sum()
        del y
        loss.backward()
        gc.collect()
        assert saved() is None
    assert fused[1:] == [True, True]


def test_hooks_and_modes_are_left_to_the_engine(fused: list[bool]):
    seen = []
    for _ in range(RUNS):
        x = leaf(3)
        y = x * 2
        y.register_hook(seen.append)
        y.sum().backward()
        x = leaf(3)
        x.register_hook(seen.append)
        x.exp().sum().backward()
        y = leaf(3) * 2
        y.retain_grad()
        y.sum().backward()
        assert y.grad is not None
        x = leaf(3)
        with warnings.catch_warnings():
            # of the cycle that create_graph makes, which is told once in a process
            warnings.simplefilter("ignore")
            x.exp().sum().backward(create_graph=True)
        assert x.grad.requires_grad
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            leaf(3).exp().sum().backward()
    assert len(seen) == 2 * RUNS and fused == []


def test_narrow_floats_are_left_to_the_engine(fused: list[bool]):
    for _ in range(RUNS):
        x = leaf(3)
        x.half().exp().float().sum().backward()
    assert fused == [False] * RUNS


def test_gradients_that_share_memory_are_left_to_the_engine(fused: list[bool]):
    for _ in range(RUNS):
        x, y = leaf(3), leaf(3)
        x.grad = y.grad = torch.zeros(3)
        (2 * x + 3 * y).sum().backward()
        assert x.grad.tolist() == [5.0] * 3
    assert fused == []


def test_a_leaf_that_was_given_other_data(fused: list[bool]):
    for k in range(RUNS + 1):
        x = leaf(3)
        loss = (x * 2).sum()
        if k >= RUNS - 1:
            x.data = torch.ones(3, dtype=torch.float64)
        loss.backward()
        assert x.grad.tolist() == [2.0] * 3
    assert not fused[-1]


def test_training_is_the_same(fused: list[bool]):
    def losses() -> list[float]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        x, labels = torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1])
        found = []
        for _ in range(6):
            loss = torch.nn.functional.cross_entropy(net(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    with fgrad.policy("default"):
        engine = losses()
    np.testing.assert_allclose(losses(), engine, rtol=1e-6)
    assert fused[-5:] == [True] * 5


@pytest.mark.parametrize("fresh", [True, False])
def test_what_another_thread_adds_meanwhile_is_kept(fresh: bool, fused: list[bool], monkeypatch: pytest.MonkeyPatch):
    x = leaf(3)
    for _ in range(RUNS):
        x.grad = None if fresh else torch.zeros(3)
        (x * 2).sum().backward()
    x.grad = None if fresh else torch.zeros(3)
    accumulate = FusibleBackward._accumulate_all

    def after_another(*args: Any) -> bool:
        with torch.no_grad():
            accumulate_grad(x, torch.ones(3))
        return accumulate(*args)

    monkeypatch.setattr(FusibleBackward, "_accumulate_all", after_another)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    assert fused == [False, True, True, False]


def square_backward(size: int) -> None:
    x = leaf(size)
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())


def square_backwards(size: int, runs: int) -> None:
    for _ in range(runs):
        square_backward(size)
        wait_for_compilations()


#: more numbers than NumPy keeps
MANY = int(POLICIES["default"].operations.numpy_kept_size) + 1


def test_compiled(fused: list[bool], held: threading.Event):
    with fgrad.policy(priced(0)):
        for _ in range(RUNS - 1):
            square_backward(MANY)
        held.set()
        wait_for_compilations()
        square_backward(MANY)
    # the second one begins to compile it, and walks meanwhile
    assert fused == [False, False, True]


@pytest.mark.parametrize("size", [3, MANY])
def test_what_numpy_runs_need_not_be_compiled(size: int, fused: list[bool]):
    """Be it permanently, or as long as it is new."""
    with fgrad.policy(Policy(backward_runs=1, deferred_size=inf)):
        square_backwards(size, RUNS)
    assert fused == [False, True, True]


def test_what_numpy_runs_is_compiled_later(fused: list[bool]):
    """NumPy may take as long as compiling takes."""
    backwards = evolve(POLICIES["default"].backwards, rent=1e-9)
    with fgrad.policy(Policy(backward_runs=1, deferred_size=inf, backwards=backwards)):
        square_backwards(MANY, RUNS)
        (backward,) = fused_backward._backwards.values()
        assert backward.fusion is not None and backward.fusion.routine is not None
        square_backwards(MANY, 2)
        assert backward.fusion.routine._xla is not None
    assert fused == [False, *[True] * (RUNS + 1)]


@pytest.mark.parametrize("excess", [-inf, 0])
def test_a_long_backward_is_fused_if_numpy_runs_it(excess: float, fused: list[bool]):
    default = POLICIES["default"]
    length = default.compiled_backward_nodes + 1
    operations = evolve(default.operations, numpy_excess=excess)
    with fgrad.policy(Policy(operations=operations, backward_runs=1, pieces_rent=0)):
        for _ in range(RUNS):
            y = leaf(3)
            for _ in range(length):
                y = y * 1
            y.sum().backward()
    assert fused == [False, *[excess == 0] * (RUNS - 1)]


def test_a_backward_with_too_many_nodes_is_not_looked_at(fused: list[bool]):
    with fgrad.policy(Policy(backward_runs=1, backward_nodes=3)):
        for _ in range(RUNS):
            leaf(3).exp().exp().exp().sum().backward()
    assert fused == []


def test_it_is_compiled_when_the_engine_has_taken_as_long(fused: list[bool]):
    with fgrad.policy(priced(1000)):
        square_backwards(MANY, RUNS)
        assert not any(fused)
        (backward,) = fused_backward._backwards.values()
        assert backward.fusion is not None
        assert 0 < backward.fusion.unspent < inf
        backward.fusion.unspent = 0.0
        square_backwards(MANY, 2)
    assert fused[RUNS:] == [False, True]


def test_the_engine_keeps_what_it_does_faster(fused: list[bool]):
    with fgrad.policy(priced(0)):
        square_backwards(MANY, 2)
        (backward,) = fused_backward._backwards.values()
        assert backward.fusion is not None
        backward.fusion.fastest = 1e-9
        square_backwards(MANY, 2 + active().trials)
    assert fused == [False, False, *[True] * (1 + active().trials), False]


UNARY = ("exp", "sin", "t", "abs", "sigmoid", "clone", "cumsum", "half")
BINARY = ("add", "mul", "sub", "maximum", "matmul")
DRAWN = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(UNARY), st.integers(0, 9)),
        st.tuples(st.sampled_from(BINARY), st.integers(0, 9), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(DRAWN)
def test_random_graphs(steps: list[tuple[Any, ...]]):
    with fgrad.policy(SECOND):
        fused_backward._backwards.clear()
        found = []
        for _ in range(RUNS):
            leaves = [leaf(2, 2), (leaf(2, 2).detach() - 1).t().requires_grad_()]
            made = [*leaves]
            for name, *operands in steps:
                given = [made[k % len(made)] for k in operands]
                more = (0,) if name == "cumsum" else ()
                made.append(getattr(given[0], name)(*given[1:], *more).float())
            sum(x.mean() for x in made).backward()
            found.append(shown(leaves))
        same(found[0], found[1])
        same(found[0], found[2])


@pytest.mark.parametrize("block", range(2))
def test_mirror_programs(block: int, fused: list[bool]):
    """What a random program shows does not depend on how its backward is run."""
    for seed in range(50 * block, 50 * block + 50):
        program = random_program(seed, 8)
        players = [Player(torch) for _ in range(RUNS)]
        for at, step in enumerate(program):
            seen = [player.play(tuple(step)) for player in players]
            for later in seen[1:]:
                assert alike(later, seen[0]), described(program, at, later, seen[0])
    assert True in fused


def test_what_a_small_backward_gives_stays_with_numpy():
    """What XLA gives takes all that is computed of it along, where each call takes ten times longer."""
    w = leaf(3, 3)
    with fgrad.policy(evolve(POLICIES["default"], backward_runs=1)):
        for _ in range(3):
            w.grad = None
            (w * w).tanh().sum().backward()
            wait_for_compilations()
            assert isinstance(w.grad._value(), np.ndarray)
