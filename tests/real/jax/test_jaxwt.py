"""jaxwt: wavelets, there and back."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jaxwt = pytest.importorskip("jaxwt")


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_a_transform_and_its_inverse(wavelet):
    def loss(x):
        coefficients = jaxwt.wavedec(x, wavelet, level=2)
        return sum(jnp.sum(c**3) for c in coefficients) + jnp.sum(jaxwt.waverec(coefficients, wavelet) ** 2)

    compare(lambda lib: lib.value_and_grad(loss)(jax.random.normal(jax.random.key(0), (16,))))
