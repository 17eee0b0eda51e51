"""quax: arrays of one's own types, which are another trace's values inside a derivative and around one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
quax = pytest.importorskip("quax")
lora = pytest.importorskip("quax.examples.lora")


def test_around_a_gradient():
    compare(lambda lib: quax.quaxify(lib.grad(lambda x: jnp.sum(jnp.sin(x) ** 2)))(jnp.arange(3.0)))


def test_low_rank_weights():
    key = jax.random.key(0)
    layer = lora.loraify(eqx.nn.Linear(4, 3, key=key), rank=2, scale=0.1, allow_materialise=True, key=key)
    weights, static = eqx.partition(layer, eqx.is_inexact_array)

    def loss(weights):
        return jnp.sum(quax.quaxify(lambda m, x: m(x))(eqx.combine(weights, static), jnp.arange(4.0)) ** 2)

    compare(lambda lib: jax.tree.leaves(lib.value_and_grad(loss)(weights)))
    compare(lambda lib: jax.tree.leaves(jax.jit(lib.grad(loss))(weights)))
