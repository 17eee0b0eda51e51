"""Random programs against JAX: value, vjp, jvp and second order of functions that Hypothesis makes up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from jax import lax

import fgrad
import fgrad.numpy as fnp
from tests.lanes import LANES, in_lane

#: operations from one matrix of shape (3, 4) (or two) to another
UNARY = {
    "sin": lambda n, x: n.sin(x),
    "tanh": lambda n, x: n.tanh(x),
    "exp": lambda n, x: n.exp(0.3 * n.tanh(x)),
    "log": lambda n, x: n.log(1.5 + n.sin(x)),
    "sqrt": lambda n, x: n.sqrt(2.0 + n.cos(x)),
    "square": lambda n, x: x**2 * 0.1,
    "softmax": lambda n, x: jax.nn.softmax(x),
    "relu": lambda n, x: n.maximum(x, 0.05),
    "abs": lambda n, x: abs(x),
    "cumsum": lambda n, x: n.cumsum(x, axis=1) * 0.5,
    "sort": lambda n, x: n.sort(x, axis=1),
    "flip": lambda n, x: n.flip(x, 0),
    "roll": lambda n, x: n.roll(x, 1, axis=1),
    "product": lambda n, x: x @ (n.ones((4, 4)) * 0.2),
    "outer": lambda n, x: x @ (x.T @ x) * 0.1,
    "reshape": lambda n, x: x.T.reshape(3, 4),
    "pad": lambda n, x: n.pad(x, ((1, 0), (0, 0)))[:3],
    "gather": lambda n, x: x[n.array([2, 0, 0])],
    "scatter": lambda n, x: x.at[1].set(x[0] * 2.0).at[:, 0].add(x[:, 1]),
    "mean": lambda n, x: x - n.mean(x, axis=0, keepdims=True),
    "where": lambda n, x: n.where(x > 0.2, x, 0.5 * x),
    "scan": lambda n, x: lax.scan(lambda c, r: (n.sin(c + r), c * r), x[0], x)[1],
    "cond": lambda n, x: lax.cond(n.sum(x) > 0, lambda y: y * 2.0, n.sin, x),
    "jit": lambda n, x: jax.jit(lambda y: y * n.cos(y))(x),
    "vmap": lambda n, x: jax.vmap(lambda r: r * n.sum(r))(x),
    "remat": lambda n, x: jax.checkpoint(lambda y: n.sin(n.sin(y)))(x),
    "fori": lambda n, x: lax.fori_loop(0, 3, lambda i, y: n.sin(y) + i * 0.1, x),
    "max": lambda n, x: x * n.max(x, axis=1, keepdims=True),
    "norm": lambda n, x: x / n.sqrt(n.sum(x * x) + 1.0),
    "branch": lambda n, x: x * 2.0,
    "gelu": lambda n, x: jax.nn.gelu(x),
}
BINARY = {
    "add": lambda n, x, y: x + y,
    "sub": lambda n, x, y: x - y,
    "mul": lambda n, x, y: x * y,
    "div": lambda n, x, y: x / (2.0 + n.sin(y)),
    "atan2": lambda n, x, y: n.arctan2(x, 2.0 + y * y),
    "minimum": lambda n, x, y: n.minimum(x, y),
    "matmul": lambda n, x, y: (x @ y.T) @ x * 0.1,
    "select": lambda n, x, y: n.where(x > y, x, y),
    "concat": lambda n, x, y: n.concatenate([x, y])[1:4],
    "scalar": lambda n, x, y: x * n.sum(y),
}

#: the fixture is the same for all examples
ALLOWED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 20)),
        st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 20), st.integers(0, 20)),
    ),
    min_size=1,
    max_size=7,
)


def play(program, n):
    def f(x, w):
        values = [x, w]
        for name, *where in program:
            picked = [values[i % len(values)] for i in where]
            values.append(UNARY[name](n, *picked) if len(picked) == 1 else BINARY[name](n, *picked))
        return n.sum(n.sin(values[-1])) + n.sum(values[len(values) // 2]) * 0.1

    return f


@pytest.mark.usefixtures("checked_passes")
@pytest.mark.parametrize("lane", [pytest.param(jnp, marks=pytest.mark.slow), fnp], ids=["open", "fast"])
@given(steps, st.integers(0, 2**16))
@settings(max_examples=16, deadline=None, derandomize=True, suppress_health_check=ALLOWED)
def test_against_jax(lane, program, seed):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        x, w, t = (jnp.asarray(rng.standard_normal((3, 4))) for _ in range(3))
        mine, theirs = play(program, lane), play(program, jnp)

        def everything(lib, f):
            g = lib.grad(f, argnums=(0, 1))
            return lambda x, w, t: (
                lib.value_and_grad(f, argnums=(0, 1))(x, w),
                lib.jvp(f, (x, w), (t, w)),
                lib.jvp(g, (x, w), (t, w))[1],
                lib.grad(lambda x: jnp.sum(g(x, w)[0] * t))(x),
            )

        expected = jax.jit(everything(jax, theirs))(x, w, t)
        found = jax.jit(everything(fgrad, mine))(x, w, t)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@pytest.mark.usefixtures("checked_passes")
@pytest.mark.parametrize("lane", ["default", *LANES])
@given(steps, st.integers(0, 2**16))
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=ALLOWED)
def test_unjitted(lane, program, seed):
    """Outside jit, in every lane, from the first run on."""
    rng = np.random.default_rng(seed)
    x, w = (jnp.asarray(rng.standard_normal((3, 4)), jnp.float32) for _ in range(2))
    expected = jax.jit(jax.grad(play(program, jnp)))(x, w)
    f = fgrad.grad(play(program, fnp))
    with in_lane(lane):
        for _ in range(3):
            np.testing.assert_allclose(f(x, w), expected, rtol=2e-3, atol=2e-3)
