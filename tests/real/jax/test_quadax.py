"""quadax: integrals, by their limits and by parameters of the integrand."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
quadax = pytest.importorskip("quadax")


def test_an_adaptive_rule():
    def integral(rate, end):
        limits = jnp.stack([jnp.zeros_like(end), end])
        return quadax.quadgk(lambda x, r: jnp.exp(-r * x**2), limits, args=(rate,), epsabs=1e-4, epsrel=1e-4)[0]

    compare(lambda lib: lib.jit(lib.grad(integral, (0, 1)))(0.7, 1.5), rtol=1e-3)
