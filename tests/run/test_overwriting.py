"""Results that are written over operands have the bits that they would have elsewhere."""

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
    random = np.random.default_rng(0)
    return [random.standard_normal(shape or (SIZE,), np.float32) for _ in range(count)]


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
def test_the_bits_are_those_of_the_program(name):
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
    make_calls(over.calls(flat, others[count:]), done)
    assert done == [True]
    kept = iter(others[:count])
    for k, want in enumerate(expected):
        np.testing.assert_array_equal(operands[pairs[k]] if k in pairs else next(kept), want)


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
