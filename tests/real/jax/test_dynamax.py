"""dynamax: the likelihood of state space models."""

import jax
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
markov = pytest.importorskip("dynamax.hidden_markov_model")
linear = pytest.importorskip("dynamax.linear_gaussian_ssm")


@pytest.mark.parametrize("name", ["hidden Markov", "linear Gaussian"])
def test_likelihood(name):
    model = markov.GaussianHMM(3, 2) if name == "hidden Markov" else linear.LinearGaussianSSM(2, 2)
    params, _ = model.initialize(jax.random.key(0))
    emissions = jax.random.normal(jax.random.key(1), (10, 2))
    compare(lambda lib: lib.grad(lambda p: model.marginal_log_prob(p, emissions))(params), rtol=1e-3, atol=1e-4)
