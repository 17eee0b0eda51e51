"""gymnax: through the physics of an environment."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
gymnax = pytest.importorskip("gymnax")


def test_a_policy_of_a_pendulum():
    environment, params = gymnax.make("Pendulum-v1")
    start = environment.reset(jax.random.key(0), params)

    def returned(w):
        def step(carry, key):
            observation, state = carry
            observation, state, reward, *_ = environment.step_env(key, state, jnp.tanh(observation @ w)[None], params)
            return (observation, state), reward

        return jnp.sum(jax.lax.scan(step, start, jax.random.split(jax.random.key(1), 5))[1])

    compare(lambda lib: lib.value_and_grad(returned)(jnp.array([0.1, 0.2, 0.3])))
