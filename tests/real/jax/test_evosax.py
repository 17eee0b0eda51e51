"""evosax: through a generation of an evolution strategy."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
evosax = pytest.importorskip("evosax")
algorithms = pytest.importorskip("evosax.algorithms")
optax = pytest.importorskip("optax")

STRATEGIES = {"CMA_ES": {}, "Open_ES": {"optimizer": optax.adam(0.1)}}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_generation(name):
    strategy = getattr(algorithms, name)(population_size=6, solution=jnp.zeros(3), **STRATEGIES[name])
    params = strategy.default_params

    def after(mean):
        state = strategy.init(jax.random.key(0), mean, params)
        population, state = strategy.ask(jax.random.key(1), state, params)
        fitness = jnp.sum((population - 1) ** 2, -1)
        return jnp.sum(strategy.tell(jax.random.key(2), population, fitness, state, params)[0].mean ** 2)

    compare(lambda lib: lib.value_and_grad(after)(jnp.array([0.1, 0.2, 0.3])))
