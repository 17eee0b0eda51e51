"""Derivatives of arithmetic, beyond the samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad


@pytest.mark.parametrize("out", ["bfloat16", "float32"])
def test_products_of_two_types_in_a_third(out):
    """Tangents and cotangents have the types of their own values."""
    x, y = jnp.array([1.5, -2.0], jnp.bfloat16), jnp.array([0.5, 3.0], jnp.float32)

    def product(x, y):
        return jnp.sum(lax.mul(x, y, out_dtype=out)).astype(jnp.float32)

    pairs = [(fgrad.grad(product, (0, 1))(x, y), jax.grad(product, (0, 1))(x, y))]
    pairs += [(fgrad.jvp(product, (x, y), (x, y)), jax.jvp(product, (x, y), (x, y)))]
    for mine, other in pairs:
        assert [a.dtype for a in mine] == [b.dtype for b in other]
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32))
