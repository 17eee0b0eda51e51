"""jaxlie: rotations and rigid motions, and a graph of poses."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jaxlie = pytest.importorskip("jaxlie")

TURN = jnp.array([0.1, 0.2, 0.3])


def test_at_the_identity():
    turned = lambda w: jnp.sum(jaxlie.SO3.exp(w).as_matrix() * jnp.arange(9.0).reshape(3, 3))  # noqa: E731
    compare(lambda lib: [lib.grad(turned)(w) for w in (TURN, jnp.zeros(3))])
    compare(lambda lib: lib.grad(lambda w: jnp.sum(jaxlie.SO3.exp(w).log() ** 2))(jnp.zeros(3)))


def test_a_group_element_is_a_tree():
    moved = lambda r: jnp.sum((r @ jnp.ones(3)) * jnp.arange(3.0))  # noqa: E731
    compare(lambda lib: lib.grad(moved)(jaxlie.SO3.exp(TURN)))


def test_a_graph_of_poses():
    aims, poses = (jax.random.normal(jax.random.key(i), (3, 6)) * 0.3 for i in range(2))
    along = jaxlie.SE3.exp(aims[0]).inverse() @ jaxlie.SE3.exp(aims[1])

    def loss(poses):
        first, second, _ = map(jaxlie.SE3.exp, poses)
        return jnp.sum((along.inverse() @ first.inverse() @ second).log() ** 2) + jnp.sum(poses[2] ** 2)

    compare(lambda lib: jax.jit(lib.value_and_grad(loss))(poses))
