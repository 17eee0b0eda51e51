"""asdex: sparse Jacobians and Hessians, whose pattern it finds in the jaxpr."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
asdex = pytest.importorskip("asdex")

X = jnp.arange(6.0) ** 1.5


def test_through_a_sparse_jacobian():
    jacobian = asdex.jacobian(lambda x: (x[1:] - x[:-1]) ** 2, X)
    compare(lambda lib: lib.value_and_grad(lambda x: jnp.sum(jacobian(x).todense() ** 3))(X))


def test_through_a_sparse_hessian():
    hessian = asdex.hessian(lambda x: jnp.sum((x[1:] - x[:-1]) ** 4), X)
    compare(lambda lib: lib.value_and_grad(lambda x: jnp.sum(hessian(x).todense() ** 2))(X), rtol=1e-3)
