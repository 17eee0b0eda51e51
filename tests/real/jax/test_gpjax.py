"""gpjax: the likelihood of a Gaussian process."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
gpx = pytest.importorskip("gpjax")
eqx = pytest.importorskip("equinox")

X = jnp.linspace(0, 1, 8)[:, None]


@pytest.mark.parametrize("name", ["conjugate_mll", "conjugate_loocv"])
def test_a_likelihood(name):
    data = gpx.Dataset(X, jnp.sin(6 * X))
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Constant(), kernel=gpx.kernels.RBF())
    params, static = eqx.partition(prior * gpx.likelihoods.Gaussian(), eqx.is_inexact_array)

    def loss(params):
        return -getattr(gpx.objectives, name)(eqx.combine(params, static), data)

    compare(lambda lib: jax.tree.leaves(lib.value_and_grad(loss)(params)))
