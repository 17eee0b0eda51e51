"""pytreeclass: layers as pytrees with masked leaves."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
tc = pytest.importorskip("pytreeclass")


class Linear(tc.TreeClass):
    def __init__(self, key, features, out):
        self.features = features
        self.weight = 0.5 * jax.random.normal(key, (features, out))
        self.bias = jnp.zeros(out)

    def __call__(self, x):
        return x @ self.weight + self.bias


class Net(tc.TreeClass):
    def __init__(self):
        self.first, self.second = Linear(jax.random.key(0), 1, 4), Linear(jax.random.key(1), 4, 1)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


def test_a_network_whose_sizes_are_masked():
    x = jnp.linspace(0, 1, 5)[:, None]

    def loss(net):
        return jnp.mean((tc.tree_unmask(net)(x) - x**2) ** 2)

    compare(lambda lib: jax.tree.leaves(lib.value_and_grad(loss)(tc.tree_mask(Net()))))
