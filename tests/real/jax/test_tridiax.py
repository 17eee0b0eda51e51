"""tridiax: solvers of tridiagonal systems."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
tridiax = pytest.importorskip("tridiax")


@pytest.mark.parametrize("name", ["thomas_solve", "stone_solve", "divide_conquer_solve"])
def test_through_a_solution(name):
    solve, right = getattr(tridiax, name), jnp.arange(8.0)

    def loss(lower, diagonal):
        return jnp.sum(solve(lower, diagonal, 0.7 * lower, right) ** 2)

    compare(lambda lib: lib.value_and_grad(loss, (0, 1))(-0.5 * jnp.ones(7), jnp.linspace(2.0, 3.0, 8)), rtol=1e-3)
