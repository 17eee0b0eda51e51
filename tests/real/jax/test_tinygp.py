"""tinygp: the likelihood of a Gaussian process."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
tinygp = pytest.importorskip("tinygp")

X = jnp.sort(jax.random.uniform(jax.random.key(0), (20,)))
Y = jnp.sin(5 * X)
THETA = jnp.array([0.1, -0.2, -1.0])


def dense(theta):
    return jnp.exp(theta[0]) * tinygp.kernels.ExpSquared(scale=jnp.exp(theta[1]))


def quasiseparable(theta):
    return tinygp.kernels.quasisep.Matern32(scale=jnp.exp(theta[1]), sigma=jnp.exp(theta[0]))


@pytest.mark.parametrize("kernel", [dense, quasiseparable])
def test_likelihood(kernel):
    def loss(theta):
        return -tinygp.GaussianProcess(kernel(theta), X, diag=jnp.exp(theta[2])).log_probability(Y)

    compare(lambda lib: lib.value_and_grad(loss)(THETA), rtol=1e-3)
