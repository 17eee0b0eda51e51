"""kfac_jax: its tags, primitives that mark the layers and losses of a model."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
kfac_jax = pytest.importorskip("kfac_jax")


def test_tags():
    def loss(w, x):
        y = kfac_jax.register_dense(x @ w, x, w)
        kfac_jax.register_squared_error_loss(y, jnp.ones_like(y))
        return jnp.mean((y - 1) ** 2)

    w, x = jnp.ones((3, 2)), jnp.arange(12.0).reshape(4, 3)
    compare(lambda lib: (lib.grad(loss, (0, 1))(w, x), lib.hessian(loss)(w, x)))
