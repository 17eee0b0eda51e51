"""matfree: traces and determinants of matrices that are only multiplied."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
pytest.importorskip("matfree")
decomp = pytest.importorskip("matfree.decomp")
funm = pytest.importorskip("matfree.funm")
stochtrace = pytest.importorskip("matfree.stochtrace")

M = jax.random.normal(jax.random.key(0), (6, 6))
A = M @ M.T + jnp.eye(6)
SAMPLER = stochtrace.sampler_signs(jnp.ones(6), num=4)


def test_a_trace():
    estimate = stochtrace.estimator_monte_carlo(stochtrace.monte_carlo_trace(), SAMPLER)
    compare(lambda lib: lib.value_and_grad(lambda a: estimate(lambda v: a * (A @ v), jax.random.key(1)))(1.3))


def test_a_logarithm_of_a_determinant():
    integrand = funm.monte_carlo_funm_sym_logdet(decomp.tridiag_sym(4))
    estimate = stochtrace.estimator_monte_carlo(integrand, SAMPLER)
    compare(lambda lib: lib.value_and_grad(lambda a: estimate(lambda v: a * (A @ v), jax.random.key(1)))(1.3))
