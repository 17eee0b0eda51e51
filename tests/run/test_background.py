"""Compiling in the background: nothing waits, whatever happens meanwhile, and the program takes over."""

import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.jaxcore import ShapedArray
from fgrad.record.stager import stage_closed
from fgrad.run import background
from fgrad.run.background import in_background, wait_for_compilations, when_called
from fgrad.run.executable import Executable
from fgrad.run.policy import Pace, Policy

X = np.arange(4, dtype="float32")
TYPES = (ShapedArray((4,), np.dtype("float32")),)
#: interpreted twice, and then as long as a program is not there
SOON = Policy(operations=Pace(runs=2, compile=in_background))


def of_cosine() -> Executable:
    return Executable(stage_closed(lambda x: [jnp.cos(x) * 2], TYPES), lambda policy: policy.operations)


def test_a_program_takes_over_when_it_is_there(held):
    with fgrad.policy(SOON):
        runs = of_cosine()
        for _ in range(6):
            np.testing.assert_allclose(runs([X])[0], 2 * np.cos(X), rtol=1e-6)
            assert runs.compiled is None
        held.set()
        wait_for_compilations()
        np.testing.assert_allclose(runs([X])[0], 2 * np.cos(X), rtol=1e-6)
        assert runs.compiled is not None


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Grows with every program that XLA compiles; what other tests have left to the background is not in it."""
    found: list[str] = []

    def listen(event: str, *_: Any, **__: Any) -> None:
        if event.endswith("backend_compile_duration"):
            found.append(threading.current_thread().name)

    wait_for_compilations()
    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("wide", [False, True])
def test_it_is_compiled_once(wide, compilations):
    x, y = X.astype("float64") if wide else X, np.full(4, 3.0, "float32")
    types = [ShapedArray(a.shape, a.dtype) for a in (x, y)]
    with fgrad.policy(SOON), jax.enable_x64(wide):
        graph = stage_closed(lambda a, b: [jnp.sinh(a) * 7, b * 2], types)
        runs = Executable(graph, lambda policy: policy.operations)
        for _ in range(8):
            runs([x, y])
            wait_for_compilations()
        assert runs.compiled is not None
    # node by node JAX compiles what NumPy has no kernel of, before
    assert compilations.count("fgrad compiles") == 1 and compilations[-1] == "fgrad compiles"


def test_who_asks_whether_it_is_ready_does_not_compile_it_again(compilations):
    with fgrad.policy(Policy(operations=Pace(compile=in_background))):
        runs = of_cosine()
        while not runs.ready():
            wait_for_compilations()
        np.testing.assert_allclose(runs([X])[0], 2 * np.cos(X), rtol=1e-6)
    assert compilations == ["fgrad compiles"]


def test_what_cannot_run_otherwise_is_waited_for(held):
    with fgrad.policy(Policy(operations=Pace(compile=in_background))):
        runs = of_cosine()
        runs([X])
        assert runs.compiled is not None


def test_policies_that_force_compiling_wait_for_nothing_in_the_background(held):
    with fgrad.policy(SOON):
        runs = of_cosine()
        for _ in range(4):
            runs([X])
        with fgrad.policy("compiled"):
            runs([X])
            assert runs.compiled is not None
    assert fgrad.run.policy.POLICIES["reproducible"].operations.compile is when_called


def test_an_error_of_compiling_is_raised_by_the_call():
    class Broken(Exception):
        pass

    def broken(_: Any) -> Any:
        if fails:
            raise Broken
        return jnp.zeros(4)

    fails = [True]
    compilation = in_background(jax.jit(broken), TYPES)
    wait_for_compilations()
    assert compilation.ready
    with pytest.raises(Broken):
        compilation.program(X)
    fails.clear()
    np.testing.assert_array_equal(in_background(jax.jit(broken), TYPES).program(X), np.zeros(4))


def test_a_thread_that_cannot_begin_leaves_it_to_the_call(monkeypatch):
    def refused(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background, "_worker", background._Worker())
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert in_background(jax.jit(jnp.tan), TYPES).ready
    wait_for_compilations()


def of_forked(results: Any) -> None:
    with fgrad.policy(SOON):
        runs = of_cosine()
        results.put([np.asarray(runs([X])[0]) for _ in range(4)])


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_process_goes_on(held):
    """It is forked when nothing is being compiled, and has a thread of its own."""
    with fgrad.policy(SOON):
        runs = of_cosine()
        for _ in range(4):
            runs([X])
    release = threading.Timer(0.2, held.set)
    release.start()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=of_forked, args=(results,))
    child.start()
    for found in results.get(timeout=60):
        np.testing.assert_allclose(found, 2 * np.cos(X), rtol=1e-6)
    child.join(60)
    assert child.exitcode == 0


ENDING = """
import jax, numpy as np
from fgrad.jaxcore import ShapedArray
from fgrad.run.background import in_background
types = [ShapedArray((1, 8, 20, 20), np.dtype("float32")), ShapedArray((8, 8, 3, 3), np.dtype("float32"))]
for stride in (1, 2, 3):
    in_background(jax.jit(lambda x, w, s=stride: jax.lax.conv(x, w, (s, s), "VALID")), types)
print("over", flush=True)
"""


def test_the_interpreter_ends_while_something_is_compiled():
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_stretches_are_compiled_behind_the_calls_too(compilations, held):
    graph = stage_closed(lambda x: [jnp.cos(jnp.cos(jnp.cos(x)))], TYPES)
    with fgrad.policy(Policy(operations=Pace(long_runs=100, compile=in_background), stretch=1, stretch_runs=1)):
        runs = Executable(graph, lambda policy: policy.operations)
        for _ in range(6):
            np.testing.assert_allclose(runs([X])[0], np.cos(np.cos(np.cos(X))), rtol=1e-6)
        assert not compilations
        held.set()
        wait_for_compilations()
        for _ in range(2):
            np.testing.assert_allclose(runs([X])[0], np.cos(np.cos(np.cos(X))), rtol=1e-6)
    assert compilations == ["fgrad compiles"]
