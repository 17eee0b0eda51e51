"""orthax: series of orthogonal polynomials."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
orthax = pytest.importorskip("orthax")

X, C = jnp.array([0.1, 0.4]), jnp.array([1.0, 0.5, 0.2])


def test_values_derivatives_and_integrals_of_series():
    def value(x, c):
        slopes = orthax.chebyshev.chebval(x, orthax.chebyshev.chebder(c))
        areas = orthax.hermite.hermval(x, orthax.hermite.hermint(c))
        return jnp.sum(orthax.legendre.legval(x, c) + slopes + areas)

    compare(lambda lib: lib.value_and_grad(value, (0, 1))(X, C))


def test_the_curvature_of_a_product():
    compare(lambda lib: lib.hessian(lambda c: jnp.sum(orthax.legendre.legmul(c, c) ** 2))(C))
