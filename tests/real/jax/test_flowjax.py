"""flowjax: the losses of normalizing flows."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
flowjax = pytest.importorskip("flowjax")
eqx = pytest.importorskip("equinox")
paramax = pytest.importorskip("paramax")
distributions = pytest.importorskip("flowjax.distributions")
flows = pytest.importorskip("flowjax.flows")
losses = pytest.importorskip("flowjax.train.losses")

BASE = distributions.Normal(jnp.zeros(2))
X = 0.4 * jax.random.normal(jax.random.key(0), (8, 2))
FLOWS = {
    "coupling": lambda key: flows.coupling_flow(key, base_dist=BASE, flow_layers=1, nn_width=4),
    "planar": lambda key: flows.planar_flow(key, base_dist=BASE, flow_layers=1, invert=True),
    "autoregressive": lambda key: flows.block_neural_autoregressive_flow(key, base_dist=BASE, nn_block_dim=2),
}


def parts(flow):
    return eqx.partition(flow, eqx.is_inexact_array, is_leaf=lambda x: isinstance(x, paramax.NonTrainable))


@pytest.mark.parametrize("name", FLOWS)
def test_the_likelihood_of_samples(name):
    params, static = parts(FLOWS[name](jax.random.key(1)))
    loss = losses.MaximumLikelihoodLoss()
    compare(lambda lib: jax.tree.leaves(lib.value_and_grad(lambda p: loss(p, static, X))(params)))


def test_the_lower_bound_of_a_density():
    params, static = parts(flows.coupling_flow(jax.random.key(1), base_dist=BASE, flow_layers=1, nn_width=4))
    loss = losses.ElboLoss(lambda z: -jnp.sum((z - 1) ** 2), num_samples=4, stick_the_landing=True)
    key = jax.random.key(2)
    compare(lambda lib: jax.tree.leaves(lib.value_and_grad(lambda p: loss(p, static, key))(params)))
