"""penzai: named arrays, and models whose parameters are taken out and bound again."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
pytest.importorskip("penzai")
pz = pytest.importorskip("penzai.pz")
simple_mlp = pytest.importorskip("penzai.models.simple_mlp")

X = jax.random.normal(jax.random.key(0), (3, 4))


def test_a_network():
    net = simple_mlp.MLP.from_config(name="net", init_base_rng=jax.random.key(1), feature_sizes=[4, 6, 2])
    model, params = pz.unbind_params(net)

    def loss(params, x):
        y = pz.bind_variables(model, params)(pz.nx.wrap(x, "batch", "features"))
        return jnp.sum(y.unwrap("batch", "features") ** 2)

    frozen = [p.freeze() for p in params]
    compare(lambda lib: jax.tree.leaves(lib.value_and_grad(loss)(frozen, X)))


def test_a_function_of_named_axes():
    measure = pz.nx.nmap(lambda v: jnp.sum(jnp.sin(v)))

    def loss(a):
        return jnp.sum(measure(pz.nx.wrap(a).tag("p", "q").untag("p")).unwrap("q") ** 2)

    compare(lambda lib: (lib.grad(loss)(jnp.ones((2, 3))), lib.hessian(loss)(jnp.ones((2, 3)))))
