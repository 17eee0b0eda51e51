"""blackjax: the gradient of a log density, and a step of its integrator."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
pytest.importorskip("blackjax")
integrators = pytest.importorskip("blackjax.mcmc.integrators")


def test_a_density_of_a_pytree():
    density = lambda x: -0.5 * jnp.sum((x["a"] - 1) ** 2) - jnp.sum(x["b"] ** 4)  # noqa: E731
    compare(lambda lib: lib.value_and_grad(density)({"a": jnp.arange(2.0), "b": jnp.ones(1)}))


def test_through_a_step_of_the_integrator():
    density = lambda x: -0.5 * jnp.sum((x - 1) ** 2)  # noqa: E731

    def program(lib):
        def after(x):
            step = integrators.velocity_verlet(density, lambda m, position=None: 0.5 * jnp.sum(m**2))
            start = integrators.IntegratorState(x, jnp.ones(3), density(x), lib.grad(density)(x))
            return step(start, 0.1).logdensity

        return lib.grad(after)(jnp.arange(3.0))

    compare(program)
