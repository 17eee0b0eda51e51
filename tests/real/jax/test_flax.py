"""flax: attention, recurrent nets, lifted transformations, and modules of nnx."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from flax.linen import fp8_ops

import fgrad
from tests.real.jax.compare import compare

pytestmark = pytest.mark.real


def test_attention():
    layer, x = nn.MultiHeadDotProductAttention(2, qkv_features=4), jax.random.normal(jax.random.key(0), (2, 3, 4))
    params = layer.init(jax.random.key(1), x)
    compare(lambda lib: lib.grad(lambda p: jnp.sum(layer.apply(p, x) ** 2))(params))


class Block(nn.Module):
    @nn.compact
    def __call__(self, carry, _):
        return nn.tanh(nn.Dense(4)(carry)), None


class Stack(nn.Module):
    @nn.compact
    def __call__(self, x):
        blocks = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return blocks()(x, None)[0]


def test_a_scan_of_rematerialised_blocks():
    net, x = Stack(), jnp.ones((2, 4))
    params = net.init(jax.random.key(0), x)
    compare(lambda lib: lib.grad(lambda p: jnp.sum(net.apply(p, x) ** 2))(params))


def test_modules_of_nnx():
    rngs = nnx.Rngs(0)
    net = nnx.Sequential(
        nnx.Linear(3, 4, rngs=rngs), nnx.LayerNorm(4, rngs=rngs), nnx.relu, nnx.Linear(4, 1, rngs=rngs)
    )
    graph, params, rest = nnx.split(net, nnx.Param, ...)
    x = jnp.arange(6.0).reshape(2, 3)
    compare(lambda lib: lib.grad(lambda p: jnp.sum(nnx.merge(graph, p, rest)(x) ** 2))(params))


def test_a_loss_writes_variables_of_a_mutable_type():
    def run(lib):
        passed, closed_over = (nnx.Variable(jnp.float32(2.0), hijax=True) for _ in range(2))

        def loss(x, variable):
            variable[...] += jax.lax.stop_gradient(2 * x)
            closed_over[...] = variable[...] * 3
            return x**2 * variable[...] + closed_over[...]

        gradient = lib.grad(loss)
        found = gradient(3.0, passed), jax.jit(gradient)(4.0, passed)
        return found, lib.grad(lambda x: x * gradient(x, passed))(5.0), passed[...], closed_over[...]

    compare(run)


def test_operations_in_8_bits():
    net = nn.Sequential([nn.Dense(8, dot_general_cls=kind) for kind in (nn.Fp8DotGeneralOp, nn.Fp8DirectDotGeneralOp)])
    x = jax.random.normal(jax.random.key(0), (4, 8))
    params = net.init(jax.random.key(1), x)
    for wrap in (lambda f: f, jax.jit):
        compare(lambda lib, wrap=wrap: wrap(lib.grad(lambda p: jnp.sum(net.apply(p, x) ** 2)))(params))


def test_a_type_whose_cotangents_are_combined_by_their_maximum():
    def loss(scale, history):
        scale, history = (jax.lax.convert_element_type(v, fp8_ops.fp32_max_grad) for v in (scale, history))

        def body(x, _):
            return fp8_ops.in_qdq(jnp.float32, jnp.float8_e4m3fn, x, scale, history), None

        return jax.lax.scan(body, jnp.array([2.0]), None, length=3)[0][0]

    compare(lambda lib: lib.grad(loss, (0, 1))(jnp.ones(1), jnp.zeros(3)))
    assert "fp8_meta32[3], 12 B" in fgrad.make_graph(loss)(jnp.ones(1), jnp.zeros(3)).to_html()


class Lifted(nn.Module):
    @nn.compact
    def __call__(self, x):
        layer = nn.Dense(4)
        y, pull = nn.vjp(lambda module, x: nn.tanh(module(x)), layer, x)
        _, y_bar = pull(jnp.ones_like(y))
        z, z_dot = nn.jvp(lambda module, x: module(x), layer, (y_bar,), (y,), {})

        def backward(pull, cotangent):
            params, x_bar = pull(cotangent)
            return jax.tree.map(jnp.sign, params), x_bar

        run = lambda module, x: module(x)  # noqa: E731
        forward = lambda module, x: nn.vjp(run, module, x)  # noqa: E731
        signed = nn.custom_vjp(run, forward_fn=forward, backward_fn=backward)(nn.Dense(4), y)
        return signed + z * z_dot + nn.cond(jnp.sum(x) > 0, run, lambda module, x: 2 * x, layer, y)


def test_lifted_derivatives():
    net, x = Lifted(), jax.random.normal(jax.random.key(0), (2, 4))
    params = net.init(jax.random.key(1), x)
    compare(lambda lib: lib.grad(lambda p: jnp.sum(net.apply(p, x) ** 2))(params))


def test_recurrent_nets_in_both_directions():
    net = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(3)), nn.RNN(nn.MGUCell(3)))
    x, lengths = jax.random.normal(jax.random.key(0), (2, 5, 4)), jnp.array([3, 5])
    params = net.init(jax.random.key(1), x)
    compare(lambda lib: lib.grad(lambda p: jnp.sum(net.apply(p, x, seq_lengths=lengths) ** 2))(params))
