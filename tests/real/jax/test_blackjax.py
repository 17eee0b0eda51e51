"""blackjax: the gradient of a log density, and a step of its integrator."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
blackjax = pytest.importorskip("blackjax")
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


@pytest.mark.parametrize("kernel", ["hmc", "mclmc"])
def test_through_a_step_of_a_kernel(kernel):
    density = lambda x: -0.5 * jnp.sum((x - 0.3) ** 2) - jnp.sum(x**4)  # noqa: E731

    def after(size):
        if kernel == "hmc":
            sampler = blackjax.hmc(density, size, jnp.ones(3), 2)
            state = sampler.init(jnp.arange(3.0) / 10)
        else:
            sampler = blackjax.mclmc(density, size, 0.1)
            state = sampler.init(jnp.arange(3.0) / 10, jax.random.key(1))
        state, _ = sampler.step(jax.random.key(0), state)
        return jnp.sum(state.position**2)

    compare(lambda lib: lib.jit(lib.value_and_grad(after))(0.1), rtol=1e-3)


def test_particles_that_repel_each_other():
    density = lambda x: -0.5 * jnp.sum((x - 0.3) ** 2) - jnp.sum(x**4)  # noqa: E731
    optax = pytest.importorskip("optax")

    def program(lib):
        sampler = blackjax.svgd(lib.grad(density), optax.adam(0.1))
        state = sampler.init(jax.random.normal(jax.random.key(0), (6, 3)))
        for _ in range(3):
            state = lib.jit(sampler.step)(state)
        return state.particles

    compare(program)


def test_chains_on_stochastic_gradients():
    x = jax.random.normal(jax.random.key(0), (6, 3))
    density = lambda p, batch: -jnp.sum((batch @ p - 1.0) ** 2)  # noqa: E731

    def program(lib):
        positions = []
        for sampler in (blackjax.sgld(lib.grad(density)), blackjax.sghmc(lib.grad(density), 3)):
            position = jnp.arange(3.0)
            for i in range(3):
                position = sampler.step(jax.random.key(i), position, x, 0.01)
            positions.append(position)
        return positions

    compare(program)
