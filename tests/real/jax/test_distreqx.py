"""distreqx: densities and samples of distributions."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
distreqx = pytest.importorskip("distreqx")
distributions = pytest.importorskip("distreqx.distributions")
bijectors = pytest.importorskip("distreqx.bijectors")

MU = jnp.array([-1.0, 0.0, 1.0])


def test_a_density_of_its_own_sample():
    def density(mu):
        normal = distributions.MultivariateNormalDiag(mu, jnp.array([0.1, 0.2, 0.3]))
        return normal.log_prob(1.1 * normal.sample(jax.random.key(1)))

    compare(lambda lib: lib.value_and_grad(density)(MU))


def test_a_transformed_distribution():
    def density(mu):
        base = distributions.Independent(distributions.Normal(mu, jnp.ones(3)))
        x, density = distributions.Transformed(base, bijectors.Block(bijectors.Tanh(), 1)).sample_and_log_prob(
            jax.random.key(2)
        )
        return density + jnp.sum(x)

    compare(lambda lib: lib.value_and_grad(density)(MU))
