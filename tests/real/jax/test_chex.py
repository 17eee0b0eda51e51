"""chex: dataclasses as parameters, and assertions about values that are traced."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare, compare_errors

pytestmark = pytest.mark.real
chex = pytest.importorskip("chex")
X = jnp.array([0.3, -1.2, 2.0])


def test_a_dataclass_of_parameters():
    @chex.dataclass
    class Params:
        w: jax.Array
        b: jax.Array

    def loss(p):
        chex.assert_shape(p.w, (3,))
        chex.assert_rank(p.b, 0)
        chex.assert_equal_shape([p.w, X])
        return jnp.sum(jnp.tanh(p.w * X + p.b))

    params = Params(w=X, b=jnp.array(1.0))
    compare(lambda lib: (jax.tree.leaves(lib.grad(loss)(params)), jax.tree.leaves(lib.jit(lib.grad(loss))(params))))


def test_an_assertion_that_fails():
    compare_errors(lambda lib: lib.grad(lambda x: (chex.assert_shape(x, (2,)), jnp.sum(x))[1])(X))


def test_assertions_about_values():
    def finite(x):
        chex.assert_tree_all_finite(x)
        return jnp.sum(jnp.log(x))

    checked = lambda lib: chex.chexify(lib.jit(lib.grad(finite)), async_check=False)  # noqa: E731
    compare(lambda lib: checked(lib)(jnp.abs(X)))
    compare_errors(lambda lib: checked(lib)(X / 0.0))
