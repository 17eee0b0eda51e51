"""distrax: bijectors, flows and mixtures."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
distrax = pytest.importorskip("distrax")


def test_a_flow():
    def loss(p):
        bijector = distrax.Chain([distrax.ScalarAffine(p[0], jnp.exp(p[1])), distrax.Tanh()])
        flow = distrax.Transformed(distrax.Normal(0.0, 1.0), bijector)
        x, density = flow.sample_and_log_prob(seed=jax.random.key(0), sample_shape=(5,))
        return jnp.sum(density) + jnp.sum(x)

    compare(lambda lib: lib.grad(loss)(jnp.array([0.3, 0.2])))


def test_divergence_and_mixture():
    def loss(a):
        weights = distrax.Categorical(logits=a)
        mixture = distrax.MixtureSameFamily(weights, distrax.Normal(a, jnp.ones(3)))
        return weights.kl_divergence(distrax.Categorical(probs=jnp.ones(3) / 3)) + mixture.log_prob(0.3)

    compare(lambda lib: lib.grad(loss)(jnp.array([0.1, 0.2, 0.5])))


def test_a_spline():
    def loss(p):
        return jnp.sum(distrax.RationalQuadraticSpline(p, 0.0, 1.0).forward_and_log_det(jnp.array(0.3))[1])

    compare(lambda lib: lib.grad(loss)(jnp.linspace(-1, 1, 13)))
