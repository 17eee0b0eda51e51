"""jax_cosmo: distances and growth in a universe, by its parameters."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jc = pytest.importorskip("jax_cosmo")


def test_a_distance():
    def loss(p):
        universe = jc.Cosmology(Omega_c=p[0], Omega_b=0.05, h=0.7, n_s=0.96, sigma8=0.8, Omega_k=0.0, w0=p[1], wa=0.0)
        return jnp.sum(jc.background.radial_comoving_distance(universe, jnp.array([0.5, 0.8]))) / 1000

    compare(lambda lib: lib.value_and_grad(loss)(jnp.array([0.25, -1.0])))
