"""jraph: networks on graphs, and its segments."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jraph = pytest.importorskip("jraph")

NODES, EDGES, WEIGHTS = (jax.random.normal(jax.random.key(i), s) for i, s in enumerate([(4, 3), (5, 3), (3, 3)]))
SEGMENTS = jnp.array([0, 0, 1, 1, 1])


def graph():
    ends = jnp.array([0, 1, 2, 3, 0]), jnp.array([1, 2, 3, 0, 2])
    return jraph.GraphsTuple(NODES, EDGES, *reversed(ends), jnp.ones((1, 3)), jnp.array([4]), jnp.array([5]))


def test_a_network():
    def loss(w):
        net = jraph.GraphNetwork(
            lambda e, sent, received, context: jnp.tanh((e + sent * received) @ w) + context,
            lambda n, sent, received, context: jnp.tanh(n @ w) + sent - received,
            lambda n, e, context: n @ w + e + context,
        )
        out = net(graph())
        return jnp.sum(out.nodes**2) + jnp.sum(out.globals**2)

    compare(lambda lib: lib.value_and_grad(loss)(WEIGHTS))


def test_a_convolution():
    net = lambda w: jraph.GraphConvolution(lambda n: n @ w, add_self_edges=True)  # noqa: E731
    compare(lambda lib: lib.grad(lambda w: jnp.sum(net(w)(graph()).nodes ** 2))(WEIGHTS))


@pytest.mark.parametrize("name", ["segment_softmax", "segment_max", "segment_normalize", "segment_variance"])
def test_segments(name):
    compare(lambda lib: lib.jacrev(lambda x: getattr(jraph, name)(x, SEGMENTS, 2))(EDGES[:, 0]))
