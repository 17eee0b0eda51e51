"""When a graph that NumPy runs is compiled, and that NumPy keeps what it runs faster."""

from math import inf
from typing import Any

import jax
import numpy as np
import pytest
from attrs import evolve
from jax import lax

import fgrad
from fgrad.jaxcore import ShapedArray
from fgrad.record.stager import stage_closed
from fgrad.run.background import wait_for_compilations
from fgrad.run.executable import Executable
from fgrad.run.policy import POLICIES, Policy, active, operations
from fgrad.run.prices import LEAST, Kind, Prices, Size

DEFAULT = POLICIES["default"]
TYPE = ShapedArray((int(DEFAULT.operations.numpy_kept_size) + 1,), np.dtype("float32"))
X = np.ones(TYPE.shape, TYPE.dtype)


def square() -> Executable:
    """Of more numbers than NumPy keeps."""
    return Executable(stage_closed(lambda x: [x * x + 1], [TYPE]), operations)


def run(executable: Executable, times: int = 1) -> None:
    for _ in range(times):
        np.testing.assert_array_equal(executable([X])[0], np.full_like(X, 2))
        wait_for_compilations()


def test_numpy_spends_as_much_time_as_compiling_would_take():
    with fgrad.policy(Policy(operations=evolve(DEFAULT.operations, rent=1000))):
        runs = square()
        run(runs, 2)
        assert runs._compilation is None
        assert 0 < runs._fastest < inf
        before = runs._unspent
        run(runs)
        assert 0 < runs._unspent < before
        runs._unspent = 0.0
        run(runs)
        assert runs._compilation is not None


@pytest.mark.parametrize(("fastest", "numpys"), [(1e-9, True), (100.0, False)])
def test_the_faster_one_keeps_it(fastest: float, numpys: bool):
    runs = square()
    run(runs)
    runs._unspent, runs._fastest = 0.0, fastest
    run(runs, 2 + active().trials)
    assert (runs.numpy is not None) == numpys
    assert (runs.compiled is not None) != numpys
    run(runs)


def test_another_policy_begins_anew():
    runs = square()
    run(runs)
    runs._unspent, runs._fastest = 0.0, 1e-9
    run(runs, 2 + active().trials)
    with fgrad.policy(Policy(operations=evolve(DEFAULT.operations, rent=0, runs=1, numpy_runs=1))):
        run(runs, 3)
        assert runs.compiled is not None


def test_what_compiling_takes_is_learnt():
    found, size = Prices(), Size(3)
    before = found.seconds(size)
    for _ in range(100):
        found.learn_seconds(size, 3 * before)
    assert found.seconds(size) == pytest.approx(3 * before, rel=1e-3)
    assert found.seconds(Size(2)) < found.seconds(Size(2, 1)) < found.seconds(Size(1000, 1))


def test_one_compilation_counts_for_so_much():
    found, size = Prices(), Size(3)
    before = found.seconds(size)
    found.learn_seconds(size, 1e6 * before)
    assert found.seconds(size) < 2 * before


def test_another_thread_gives_up_the_numpy_program(monkeypatch: pytest.MonkeyPatch):
    runs = square()
    run(runs)

    def in_memory(x: Any) -> bool:
        runs._new = None
        return True

    monkeypatch.setattr("fgrad.run.executable.in_memory", in_memory)
    run(runs)


def test_what_compiling_saves_is_learnt():
    found, size = Prices(), Size(3, convolutions=1)
    assert found.rent(size) > found.seconds(size)
    for _ in range(100):
        found.learn_saving(size, 1.0, 0.5)
    assert found.rent(size) == pytest.approx(2 * found.seconds(size))
    for _ in range(100):
        found.learn_saving(size, 1.0, 2.0)
    assert found.rent(size) == pytest.approx(found.seconds(size) / LEAST)


def test_the_size_of_a_graph():
    def loop(x: Any) -> list[Any]:
        step = lambda c, _: (lax.sin(c), None)  # noqa: E731
        return [lax.scan(step, x * x, None, length=3)[0]]

    graph = stage_closed(loop, [ShapedArray((2,), np.dtype("float32"))])
    assert Size.of(graph) == Size(3, 0, 1)
    assert Size.of(graph).kind is Kind.LOOP


def test_no_time_is_learnt_from_what_was_not_compiled_in_the_background():
    with fgrad.policy("compiled"):
        runs = square()
        run(runs)
        assert runs._compilation is not None
        assert runs._compilation.seconds is None
    assert isinstance(runs([X])[0], jax.Array)
