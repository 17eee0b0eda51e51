"""haiku: layers, a recurrent net unrolled by scan, stacks of layers, and batch normalisation with its state."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
hk = pytest.importorskip("haiku")


def pure(function):
    return hk.without_apply_rng(hk.transform(function))


def test_mlp():
    net = pure(lambda x: hk.nets.MLP([8, 1])(hk.LayerNorm(-1, True, True)(x)))
    x = jnp.arange(4.0)[:, None] + jnp.arange(3.0) ** 2
    params = net.init(jax.random.key(0), x)
    compare(lambda lib: lib.grad(lambda p: jnp.mean(net.apply(p, x) ** 2))(params))


def test_lstm():
    def unrolled(x):
        core = hk.LSTM(4)
        return hk.dynamic_unroll(core, x, core.initial_state(2))[0]

    net, x = pure(unrolled), jax.random.normal(jax.random.key(1), (5, 2, 3))
    params = net.init(jax.random.key(0), x)
    compare(lambda lib: lib.grad(lambda p: jnp.mean(net.apply(p, x) ** 2))(params))


def test_batch_norm():
    layers = lambda x: hk.BatchNorm(True, True, 0.9)(hk.Conv2D(3, 3)(x), True)  # noqa: E731
    net, x = hk.without_apply_rng(hk.transform_with_state(layers)), jax.random.normal(jax.random.key(1), (2, 5, 5, 2))
    params, state = net.init(jax.random.key(0), x)
    compare(lambda lib: lib.grad(lambda p: jnp.mean(net.apply(p, state, x)[0] ** 3))(params))


def test_a_stack_of_layers_and_a_scan_of_rematerialised_ones():
    def layers(x):
        x = hk.experimental.layer_stack(2)(lambda x: jnp.tanh(hk.Linear(3)(x)))(x)
        mix = lambda c: c @ hk.get_parameter("mix", (3, 3), init=jnp.ones)  # noqa: E731
        mix(x)
        return hk.scan(lambda c, y: (jnp.tanh(hk.remat(mix)(c) + y), c), x, jnp.ones((4, 2, 3)))[0]

    net, x = pure(layers), jax.random.normal(jax.random.key(1), (2, 3))
    params = net.init(jax.random.key(0), x)
    compare(lambda lib: lib.grad(lambda p: jnp.mean(net.apply(p, x) ** 2))(params))
