"""e3nn_jax: tensor products and spherical harmonics."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
e3nn = pytest.importorskip("e3nn_jax")


def test_products_and_harmonics():
    x = e3nn.normal("1o + 0e", jax.random.key(0), (3,))

    def loss(array):
        values = e3nn.IrrepsArray("1o + 0e", array)
        product = e3nn.tensor_product(values, values)
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", values.filter("1o"), True)
        return jnp.sum(product.array**3) + jnp.sum(harmonics.array**3)

    compare(lambda lib: lib.grad(loss)(x.array))
