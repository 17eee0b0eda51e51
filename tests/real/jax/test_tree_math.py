"""tree_math: pytrees as vectors."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
tm = pytest.importorskip("tree_math")

X = jnp.arange(3.0)


def test_a_step_of_conjugate_gradients():
    @tm.wrap
    def step(x, b):
        r = b - x * 2.0
        return x + (r @ r) / (r @ (r * 2.0)) * r

    def loss(x):
        return sum(
            jnp.sum(y**2) for y in jax.tree.leaves(step({"a": x, "b": (2 * x, 1.0)}, {"a": x + 1, "b": (x, 2.0)}))
        )

    compare(lambda lib: lib.value_and_grad(loss)(X))


def test_the_gradient_of_a_vector_is_a_vector():
    compare(lambda lib: lib.grad(lambda v: v @ v)(tm.Vector({"a": X})).tree)
