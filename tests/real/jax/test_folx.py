"""folx: the Laplacian of a network in one forward pass, and its gradient."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
folx = pytest.importorskip("folx")

W = jnp.arange(12.0).reshape(3, 4) / 5
X = jnp.arange(6.0).reshape(2, 3) / 5


@pytest.mark.parametrize("name", ["ForwardLaplacianOperator", "LoopLaplacianOperator"])
def test_through_the_laplacian_of_a_network(name):
    operator = folx.ForwardLaplacianOperator(0) if name.startswith("Forward") else folx.LoopLaplacianOperator()

    def loss(w, x):
        laplacian, gradient = operator(lambda x: jnp.sum(jnp.tanh(x @ w) ** 2))(x)
        return jnp.sum(laplacian) + jnp.sum(gradient**2)

    compare(lambda lib: lib.value_and_grad(loss, (0, 1))(W, X))
