"""jax_privacy: sums of gradients of samples that are clipped."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
pytest.importorskip("jax_privacy")
clipping = pytest.importorskip("jax_privacy.clipping")


def test_through_a_clipped_gradient():
    samples = jax.random.normal(jax.random.key(1), (5, 3)), jnp.arange(5.0)

    def loss(w, batch):
        x, y = batch
        return jnp.mean((x @ w - y) ** 2)

    clipped = clipping.clipped_grad(loss, l2_clip_norm=1.0)
    compare(lambda lib: lib.value_and_grad(lambda w: jnp.sum(clipped(w, samples) ** 2))(jnp.array([0.1, 0.2, -0.3])))
