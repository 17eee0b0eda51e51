"""brax: a step of a simulation."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
envs = pytest.importorskip("brax.envs")


@pytest.mark.parametrize("backend", ["generalized", "spring", "positional"])
def test_a_step(backend):
    env = envs.get_environment("inverted_pendulum", backend=backend)
    state = jax.jit(env.reset)(jax.random.key(0))
    loss = lambda action: jnp.sum(env.step(state, action).obs ** 2)  # noqa: E731
    compare(lambda lib: jax.jit(lib.grad(loss))(jnp.array([0.3])), rtol=1e-3)
