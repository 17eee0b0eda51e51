"""sparsejac: Jacobians of a known sparsity."""

import jax.numpy as jnp
import pytest
from jax.experimental import sparse

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
sparsejac = pytest.importorskip("sparsejac")


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_through_a_sparse_jacobian(name):
    jacobian = getattr(sparsejac, name)(jnp.sin, sparsity=sparse.BCOO.fromdense(jnp.eye(6)))
    compare(lambda lib: lib.value_and_grad(lambda x: jnp.sum(jacobian(x).todense() ** 3))(jnp.arange(1.0, 7.0)))
