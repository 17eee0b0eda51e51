"""Results that are written over operands have the bits that they would have elsewhere."""

import gc
import random
import signal
import time
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fgrad.run.overwriting as module
from fgrad.run.blocks import BLOCK
from fgrad.run.numpy_program import numpy_program
from fgrad.run.overwriting import make_calls, overwriting
from tests.run.test_kernels import graph_of

SIZE = 2 * BLOCK + 5


def arrays(count: int, *shape: int) -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape or (SIZE,), np.float32) for _ in range(count)]


def momentum(p, g, b, rate):
    b = b * jnp.float32(0.9) + g
    return p - rate * b, b


def adam(p, g, m, v, rate):
    m = m * rate + g * (1 - rate)
    v = v * rate + g * g * (1 - rate)
    return p - rate * (m / (jnp.sqrt(v) + rate)), m, v


def two_sizes(p, q, g, h, rate):
    return p - rate * g, q - rate * h, rate + 1


CASES = {
    "momentum": (momentum, [*arrays(3), np.float32(0.1)], {0: 0, 1: 2}),
    "adam": (adam, [*np.abs(arrays(4)), np.float32(0.1)], {0: 0, 1: 2, 2: 3}),
    "matrices": (momentum, [*arrays(3, SIZE // 3, 3), np.float32(0.1)], {0: 0, 1: 2}),
    "two sizes, and another result": (
        two_sizes,
        [*arrays(1), *arrays(1, SIZE + 1), *arrays(1), *arrays(1, SIZE + 1), np.float32(0.1)],
        {0: 0, 1: 1},
    ),
    "a result that is an operand of another": (lambda x, y: (z := x + y, z * y), arrays(2), {0: 0, 1: 1}),
}


@pytest.fixture(autouse=True)
def large(monkeypatch):
    monkeypatch.setattr(module, "LARGE", SIZE)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_bits_are_those_of_the_program(name, most, monkeypatch):
    monkeypatch.setattr(module, "PART", SIZE // 2)
    monkeypatch.setattr(module, "SHARED_BLOCK", BLOCK // 2)
    function, operands, pairs = CASES[name]
    graph, _ = graph_of(function, tuple(operands))
    program = numpy_program(graph)
    assert program is not None
    expected = program.run([np.asarray(x) for x in operands])
    over = overwriting(graph, pairs)
    assert over is not None and dict(over.written) == pairs
    operands = [np.array(x) for x in operands]
    rest = numpy_program(over.rest)
    assert rest is not None or not over.rest.outputs
    others = [] if rest is None else rest.run(operands)
    flat = {i: operands[i].reshape(-1) for each in over.chains for i in each.read}
    count = len(others) - len(over.scalars)
    done: list[bool] = []
    parts = over.parts(flat, others[count:], most)
    assert len(parts) == most
    make_calls(parts, done)
    assert done == [True]
    kept = iter(others[:count])
    for k, want in enumerate(expected):
        np.testing.assert_array_equal(operands[pairs[k]] if k in pairs else next(kept), want)


def added(count: int) -> tuple[list[np.ndarray], list[Any]]:
    """Arrays, each in a part of its own, to whose elements 1 is added again and again."""
    totals = [np.zeros(1000) for _ in range(count)]
    return totals, [[(np.add, x, 1.0, x)] * 300 for x in totals]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_an_interrupt_at_any_moment_leaves_all_parts_made_or_none():
    raised = 0

    def handler(*_: Any) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, handler)
    gc.disable()  # JAX's callbacks would swallow the interrupt
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            totals, parts = added(3)
            done: list[bool] = []
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-3))
                make_calls(parts, done)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                raised += 1
            time.sleep(0.001)  # a helper that were still at it would be seen
            assert {float(x) for total in totals for x in total} == {300.0 if done else 0.0}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
        gc.enable()
    assert raised


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_in_a_part_is_raised_when_all_are_made(bad):
    totals, parts = added(2)

    def fails() -> None:
        raise OverflowError

    parts[bad] = [(fails,), *parts[bad]]
    done: list[bool] = []
    with pytest.raises(OverflowError):
        make_calls(parts, done)
    assert done and all((total == 300).all() for total in totals)


def test_an_operand_is_not_overwritten_before_it_is_read_last():
    x, y = arrays(2)
    graph, _ = graph_of(lambda x, y: (x * 2, x + y), (x, y))
    over = overwriting(graph, {0: 0, 1: 1})
    assert over is not None and dict(over.written) == {0: 0}
    assert len(over.rest.outputs) == 1 + len(over.scalars)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x),
        lambda x: x + x.sum(),
        lambda x: x[::-1] + x,
        lambda x: x,
        lambda x: x.astype(jnp.int32),
        lambda x: x + np.arange(SIZE, dtype=np.float32),
    ],
)
def test_other_than_arithmetic_on_whole_arrays_is_computed_as_ever(function):
    graph, _ = graph_of(lambda x: (function(x),), (arrays(1)[0],))
    over = overwriting(graph, {0: 0})
    # a sum is a scalar to the arithmetic that reads it
    assert over is None or len(over.scalars) == 1


def test_of_equal_results_one_is_written():
    x, y = arrays(2)
    graph, _ = graph_of(lambda x, y: (z := x + y, z), (x, y))
    over = overwriting(graph, {0: 0, 1: 1})
    assert over is not None and dict(over.written) == {0: 0} and len(over.rest.outputs) == 1
