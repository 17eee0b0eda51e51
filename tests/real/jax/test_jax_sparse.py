"""jax.experimental.sparse: matrices in coordinates and in rows, whose primitives JAX does not export."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import sparse

from tests.real.jax.compare import compare, compare_errors

M = jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
A = sparse.BCOO.fromdense(M)
X = jnp.arange(3.0)


def bcoo(data):
    return sparse.BCOO((data, A.indices), shape=A.shape)


def test_a_matrix_times_a_vector():
    loss = lambda data, x: jnp.sum(jnp.sin(bcoo(data) @ x))  # noqa: E731
    compare(lambda lib: (lib.grad(loss, (0, 1))(A.data, X), lib.jvp(loss, (A.data, X), (A.data, X))))


PROGRAMS = {
    "jit": lambda lib: jax.jit(lib.grad(lambda x: jnp.sum((A @ x) ** 2)))(X),
    "vmap": lambda lib: jax.vmap(lib.grad(lambda x: jnp.sum((A @ x) ** 2)))(jnp.ones((4, 3))),
    "hessian": lambda lib: lib.hessian(lambda x: jnp.sum(jnp.sin(A @ x)))(X),
    "a matrix": lambda lib: lib.grad(lambda m: jnp.sum((A.T @ m) ** 2))(jnp.ones((2, 2))),
    "todense": lambda lib: lib.grad(lambda d: jnp.sum(bcoo(d).todense() ** 2))(A.data),
    "fromdense": lambda lib: lib.grad(lambda m: jnp.sum(sparse.BCOO.fromdense(m, nse=3).data ** 2))(M),
    "sum": lambda lib: lib.grad(lambda d: jnp.sum(bcoo(d).sum(0).todense() ** 2))(A.data),
    "product": lambda lib: lib.grad(lambda d, m: jnp.sum((bcoo(d) * m).todense() ** 2), (0, 1))(A.data, 1 + M),
    "sort_indices": lambda lib: lib.grad(lambda d: jnp.sum(bcoo(d).sort_indices().todense() ** 2))(A.data),
    "sparsify": lambda lib: lib.grad(
        lambda d, x: sparse.sparsify(lambda m, x: jnp.sum(jnp.sin(2 * (m @ x))))(bcoo(d), x), (0, 1)
    )(A.data, X),
    "COO and CSR": lambda lib: lib.grad(
        lambda x: jnp.sum((sparse.CSR.fromdense(M) @ x) ** 2) + jnp.sum((sparse.COO.fromdense(M) @ x) ** 2)
    )(X),
}


@pytest.mark.real
@pytest.mark.parametrize("name", PROGRAMS)
def test_bcoo(name):
    compare(PROGRAMS[name])


@pytest.mark.real
def test_a_product_of_two_sparse_matrices():
    product = lambda d: (bcoo(d) @ A.T).todense()  # noqa: E731
    compare(lambda lib: lib.jvp(product, (A.data,), (A.data,)))
    compare_errors(lambda lib: lib.grad(lambda d: jnp.sum(product(d) ** 2))(A.data))


@pytest.mark.real
def test_bcsr():
    rows = sparse.BCSR.fromdense(M)
    loss = lambda d, x: jnp.sum((sparse.BCSR((d, rows.indices, rows.indptr), shape=M.shape) @ x) ** 2)  # noqa: E731
    compare(lambda lib: lib.grad(loss, (0, 1))(rows.data, X))
