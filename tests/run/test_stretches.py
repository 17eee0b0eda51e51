"""Long graphs: cut in stretches, equal ones compiled once; values as JAX gives them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attrs import evolve

import fgrad
import fgrad.numpy as fnp
from fgrad.jaxcore import typeof
from fgrad.record.stager import stage_closed
from fgrad.run import stretches
from fgrad.run.executable import Executable, executable, long_runs
from fgrad.run.policy import Pace, Policy, calls

LENGTH = 12


@pytest.fixture(autouse=True)
def short():
    """Stretches of 12 nodes, compiled when they have been met once."""
    fgrad.clear_cache()
    with fgrad.policy(Policy(stretch=LENGTH, stretch_runs=1)):
        yield
    fgrad.clear_cache()


def mixed(length):
    def f(x, w):
        y = x
        for i in range(length):
            y = fnp.sin(y) * w + x
            if i % 7 == 3:
                y = y - fnp.cumsum(y)[0]
        return fnp.sum(y * x)

    return f


X = jnp.linspace(0.1, 0.7, 4)
W = jnp.linspace(-0.5, 0.5, 4)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 3, 12, 13, 60])
def test_gradients(length):
    f = mixed(length)
    expected = jax.jit(jax.value_and_grad(f, (0, 1)))(X, W)
    for _ in range(3):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6),
                     fgrad.value_and_grad(f, (0, 1))(X, W), expected)  # fmt: skip


def test_pullbacks_keep_many_values():
    f = mixed(40)
    expected = jax.jit(jax.grad(f))(X, W)
    for _ in range(3):
        value, back = fgrad.vjp(lambda x: f(x, W), X)
        np.testing.assert_allclose(back(jnp.ones_like(value))[0], expected, rtol=2e-4)


def test_equal_stretches_are_one_program():
    def f(x):
        for _ in range(1200):
            x = fnp.sin(x)
        return x

    graph = stage_closed(lambda x: [f(x)], [typeof(X)])
    cut = stretches.cut(graph, LENGTH)
    assert len(cut.stretches) == 100
    # the last one gives the output only, as the others do
    assert len({s.part for s in cut.stretches}) == 1
    np.testing.assert_allclose(cut([X], Pace())[0], f(X), rtol=1e-6)
    assert cut.stretches[0].part.compilation is not None
    # a loop of another length has the same stretches
    assert {s.part for s in stretches.cut(stage_closed(lambda x: [f(f(x))], [typeof(X)]), LENGTH).stretches} == {
        cut.stretches[0].part
    }


def test_values_are_let_go():
    graph = stage_closed(lambda x: [mixed(40)(x, W)], [typeof(X)])
    cut = stretches.cut(graph, LENGTH)
    dead = [i for s in cut.stretches for i in s.dead]
    assert len(dead) == len(set(dead))
    assert {i for s in cut.stretches for i in s.ins} == set(dead)


def test_what_passes_through_and_what_is_constant():
    w = np.arange(3.0, dtype=np.float32)

    def f(x):
        y = x
        for _ in range(30):
            y = y * 1.01 + w
        return y, x, jnp.asarray(w)

    graph = stage_closed(f, [typeof(jnp.ones(3))])
    for _ in range(2):
        for a, b in zip(executable(graph)([jnp.ones(3)]), f(jnp.ones(3)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_inside_other_transformations():
    f = mixed(30)
    expected = jax.jit(jax.grad(f))(X, W)
    for _ in range(3):
        fgrad.grad(f)(X, W)
    # concrete arguments under a trace: the stretches' programs cannot be nested in another one
    np.testing.assert_allclose(jax.jit(lambda: fgrad.grad(f)(X, W))(), expected, rtol=2e-4)
    np.testing.assert_allclose(jax.vmap(fgrad.grad(f), (0, None))(X[None], W)[0], expected, rtol=2e-4)
    np.testing.assert_allclose(fgrad.grad(lambda s: jnp.sum(s * fgrad.grad(f)(X, W)))(1.0), np.sum(expected), rtol=2e-4)


def test_a_long_graph_met_very_often_is_compiled_whole():
    graph = stage_closed(lambda x: [mixed(10)(x, W)], [typeof(X)])
    pace = evolve(Policy().calls, long_runs=2)
    with fgrad.policy(Policy(calls=pace, stretch=LENGTH, stretch_runs=1)) as policy:
        runner = Executable(graph, calls)
        runs = pace.runs + long_runs(graph, pace, policy)
        assert runs > 9
        values = []
        for _ in range(int(runs) + 1):
            assert runner.compiled is None
            values.append(runner([X])[0])
        assert runner.compiled is not None
        values.append(runner([X])[0])
    np.testing.assert_allclose(values, values[0], rtol=1e-5)
