"""``shard_map`` in differentiated functions, over eight devices, against JAX's derivatives."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import fgrad
from tests.api.compare import same

LINE = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
PLANE = jax.make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
X = jnp.asarray(np.random.default_rng(0).normal(size=(16, 8)), jnp.float32)
W = jnp.asarray(np.random.default_rng(1).normal(size=(8, 8)), jnp.float32) / 3
RING = [(k, (k + 1) % 8) for k in range(8)]


ROWS, ALL = P("i"), P()


def over(body, in_specs=(ROWS, ALL), out_specs=ROWS, mesh=LINE, **options):
    return jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def summed_product(x, w):
    """The parts of a product's inner dimension, added up."""
    return lax.psum(x @ w, "i")


def ring(x, w):
    """Each part meets each other one, as they go round."""

    def step(carry, _):
        moving, total = carry
        moving = lax.ppermute(moving, "i", RING)
        return (moving, total + jnp.tanh(moving @ w)), None

    return lax.scan(step, (x, jnp.zeros_like(x)), None, length=8)[0][1]


def softmax(x, w):
    top = lax.stop_gradient(lax.pmax(lax.stop_gradient(jnp.max(x @ w)), "i"))
    weights = jnp.exp(x @ w - top)
    return weights / lax.psum(jnp.sum(weights), "i")


def closure(x, w):
    return over(lambda a: jnp.sin(a * jnp.sum(w)) @ w, in_specs=P("i"))(x)


def looped(x, w):
    step = over(lambda c, a: jnp.sin(c @ a))
    return lax.scan(lambda c, a: (step(c, a), None), x, w + w[:3, None])[0]


@jax.custom_vjp
def clipped(x, y):
    return x * y


clipped.defvjp(lambda x, y: (x * y, (x, y)), lambda xy, ct: (jnp.clip(ct, -0.1, 0.1) * xy[1], ct * xy[0]))


@fgrad.custom_jvp
def tripled(x):
    return jnp.sin(x)


tripled.defjvps(lambda t, out, x: 3 * t * jnp.cos(x))

FUNCTIONS = {
    "elementwise": over(lambda x, w: jnp.sin(x) @ w),
    "psum": over(summed_product, (P(None, "i"), P("i")), P()),
    "psum, sharded twice": over(
        lambda x, w: lax.psum(jnp.sin(x @ w), "j"), (P("i", "j"), P("j", None)), P("i"), mesh=PLANE
    ),
    "psum over both": over(lambda x, w: lax.psum(jnp.sum(x * jnp.sum(w)), ("i", "j")), (P("i", "j"), P()), P(), PLANE),
    "pmean": over(lambda x, w: jnp.sin(x) @ lax.pmean(w * jnp.sum(x), "i")),
    "replicated": over(lambda x, w: jnp.sin(x) @ w, (P(), P()), P()),
    "replicated, varying out": over(lambda x, w: jnp.cos(x @ w), (P(), P()), P("i")),
    "all_gather": over(lambda x, w: jnp.sin(lax.all_gather(x, "i", tiled=True)[3:5] @ w)),
    "all_gather, stacked": over(lambda x, w: jnp.sin(x) @ jnp.sum(lax.all_gather(x @ w, "i"), 0).T @ x),
    "reduce_scatter": over(lambda x, w: lax.psum_scatter(jnp.tanh(x.T @ x @ w), "i", tiled=True)),
    "all_to_all": over(lambda x, w: lax.all_to_all(jnp.sin(x @ w), "i", 1, 0, tiled=True), out_specs=P(None, "i")),
    "ppermute": over(lambda x, w: x * lax.ppermute(jnp.sin(x @ w), "i", RING)),
    "axis_index": over(lambda x, w: x @ w * (1 + lax.axis_index("i"))),
    "several": over(
        lambda x, w: {"a": x * 2, "n": lax.axis_index("i")[None], "b": lax.psum(jnp.sum(x), "i") * w[0]},
        out_specs={"a": P("i"), "n": P("i"), "b": P()},
    ),
    "one unused": over(lambda x, w: (jnp.sin(x), jnp.zeros(2)), out_specs=(P("i"), P())),
    "ring": over(ring),
    "softmax": over(softmax),
    "closure": closure,
    "branch": over(lambda x, w: lax.cond(lax.axis_index("i") > 3, jnp.sin, jnp.cos, x @ w)),
    "where": over(lambda x, w: jnp.where(x > 0, jax.nn.softplus(x @ w), jax.nn.relu(x))),
    "pieces": over(lambda x, w: jnp.concatenate([x[:, 2:], jnp.zeros((2, 2)), x[:, :2] ** 2], 1).at[0, :8].add(w[0])),
    "dynamic": over(lambda x, w: lax.dynamic_slice_in_dim(x, lax.axis_index("i") % 2, 1) @ w * x[jnp.array([0, 0])]),
    "custom rules": over(lambda x, w: clipped(x, tripled(x @ w))),
    "remat": over(jax.checkpoint(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x)),
    "fgrad's remat": over(fgrad.checkpoint(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x)),
    "inner jit": over(jax.jit(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x)),
    "in a jit": jax.jit(over(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x)),
    "in a remat": jax.checkpoint(over(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x)),
    "in a loop": looped,
    "in a branch": lambda x, w: lax.cond(
        w[0, 0] > 5, lambda x: x, lambda x: over(lambda x, w: jnp.sin(x @ w))(x, w), x
    ),
    "of some axes": over(
        lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x, (P("i"), P()), P("i"), PLANE, axis_names={"i"}
    ),
    "unchecked": over(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x, check_vma=False),
    "unchecked, replicated": over(lambda x, w: lax.psum(jnp.sin(x @ w), "i"), out_specs=P(), check_vma=False),
    "unchecked, two axes": over(
        lambda x, w: (lax.psum(jnp.sin(x @ w), "j"), lax.all_gather(x, "i", tiled=True) @ w),
        (P("i", "j"), P("j")), (P("i"), P(None, "j")), PLANE, check_vma=False,
    ),
}  # fmt: skip


def loss(f):
    def total(x, w):
        leaves = jax.tree.leaves(f(x, w))
        return sum(
            jnp.sum(jnp.sin(y) * jnp.arange(1.0, 1 + math.prod(y.shape)).reshape(y.shape) / 9)
            for y in leaves
            if jnp.issubdtype(y.dtype, jnp.floating)
        )

    return total


@functools.cache
def expected(name):
    f, args = loss(FUNCTIONS[name]), (X, W)
    forward = None if name == "custom rules" else jax.jit(lambda *a: jax.jvp(f, a, a))(*args)
    return jax.jit(jax.value_and_grad(f, (0, 1)))(*args), forward


@pytest.mark.parametrize("name", FUNCTIONS)
def test_grad(name):
    f, args = loss(FUNCTIONS[name]), (X, W)
    gradient = fgrad.value_and_grad(f, (0, 1))
    for _ in range(3):
        same(gradient(*args), expected(name)[0], 2e-4)
    same(fgrad.grad(f)(*args), expected(name)[0][1][0], 2e-4)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "custom rules"])
def test_jvp(name):
    f, args = loss(FUNCTIONS[name]), (X, W)
    same(fgrad.jvp(f, args, args), expected(name)[1], 2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["psum", "ring", "several", "of some axes", "unchecked", "in a jit", "closure"])
def test_composition(name):
    f, args = loss(FUNCTIONS[name]), (X, W)
    gradient = expected(name)[0][1]
    same(fgrad.jit(fgrad.grad(f, (0, 1)))(*args), gradient, 2e-4)
    same(jax.jit(fgrad.grad(f, (0, 1)))(*args), gradient, 2e-4)
    same(fgrad.grad(fgrad.jit(f), (0, 1))(*args), gradient, 2e-4)
    same(jax.grad(fgrad.jit(f), (0, 1))(*args), gradient, 2e-4)
    same(fgrad.linearize(f, *args)[1](*args), expected(name)[1][1], 2e-4)
    same(fgrad.vjp(f, *args)[1](jnp.float32(1.0)), gradient, 2e-4)
    second = lambda api: api.grad(lambda x: jnp.sum(api.grad(f, 1)(x, args[1]) ** 2))  # noqa: E731
    same(jax.jit(second(fgrad))(args[0]), jax.jit(second(jax))(args[0]), 1e-2)


def test_a_gradient_inside():
    def inside(d):
        return over(lambda x, w: d(lambda a: jnp.sum(jnp.sin(a @ w) * a))(x))

    same(inside(fgrad.grad)(X, W), inside(jax.grad)(X, W))


def test_results_lie_on_the_mesh():
    f = over(lambda x, w: jnp.sin(x @ w))
    x = jax.device_put(X, NamedSharding(LINE, P("i")))
    (ct,) = fgrad.vjp(lambda x: f(x, W), x)[1](jnp.ones_like(X))
    assert ct.sharding.is_equivalent_to(x.sharding, 2)


def test_a_mesh_whose_shardings_are_types():
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x, w = jax.device_put(X, P("i")), jax.device_put(W, P())
        f = loss(jax.shard_map(lambda x, w: lax.psum(jnp.sin(x @ w), "i") * x, out_specs=P("i")))
        for g, h in ((fgrad.grad, jax.grad), (fgrad.value_and_grad, jax.value_and_grad)):
            same(jax.jit(g(f, (0, 1)))(x, w), jax.jit(h(f, (0, 1)))(x, w), 2e-4)
            same(g(f, (0, 1))(x, w), jax.jit(h(f, (0, 1)))(x, w), 2e-4)


def test_graphs_show_the_body():
    graph = fgrad.make_graph(loss(FUNCTIONS["psum"]))(X, W)
    assert "shard_map" in [node.primitive.name for node in graph.nodes]
    assert "psum_invariant" in graph.to_text()
    same(graph(X, W), jax.jit(loss(FUNCTIONS["psum"]))(X, W), 2e-4)
    same(graph.grad()(X, W), expected("psum")[0][1][0], 2e-4)


@jax.custom_vjp
def _ruled(x):
    return jnp.sin(x)


_ruled.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))

#: functions of a matrix whose sharding is part of its type; that of the zeros and ones of a derivative, too
EXPLICIT = {
    "relu": lambda x: jax.nn.relu(x).sum(),
    "where": lambda x: jnp.where(x > 3, x, 0.0).sum(1).max(),
    "loop": lambda x: lax.scan(lambda c, w: (jnp.tanh(c * w), c), x, jnp.ones(3))[1].sum(),
    "branch with a rule": lambda x: lax.cond(x.sum() > 0, _ruled, jnp.cos, x).sum(),
    "unused": lambda x: jnp.ones(3).sum(),
    "tiled": lambda x: jnp.sin(jnp.tile(x, (1, 2))).sum(),
    "stopped": lambda x: (lax.stop_gradient(x) * 2).sum(),
    "product": lambda x: jnp.sin(x @ jnp.ones((8, 3))).sum(),
}


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["plain", "jax.jit"])
@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_shardings(name, around):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,), devices=jax.devices()[:4])
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(64.0).reshape(8, 8), jax.sharding.PartitionSpec("i"))
        expected, found = (around(library.grad(EXPLICIT[name]))(x) for library in (jax, fgrad))
        assert jax.typeof(found) == jax.typeof(expected)
        assert found.sharding.is_equivalent_to(expected.sharding, 2)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


#: functions whose axes have another type than those around them
OTHER_AXES = {
    "elementwise": lambda x: jnp.sin(x) * x.sum(),
    "zeros and ones": lambda x: jnp.where(x > 3, jax.nn.relu(x), 0.0) * jnp.ones((8, 8)),
    "loop": lambda x: lax.scan(lambda c, _: (_ruled(c) * 2, c.sum()), x, None, length=3)[0],
    "branch": lambda x: lax.cond(x.sum() > 0, _ruled, jnp.cos, x),
    "block": jax.checkpoint(lambda x: jnp.sin(x * 2) * x.sum()),
    "padded": lambda x: jnp.pad(x, ((0, 0), (1, 1)))[:, 1:9] * x,
    "gradient": lambda x: fgrad.grad(lambda x: (jnp.sin(x) * x).sum())(x),
}


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["plain", "jax.jit"])
@pytest.mark.parametrize("outside", [jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto], ids=str)
@pytest.mark.parametrize("name", OTHER_AXES)
def test_auto_and_explicit_axes(name, outside, around):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(outside,), devices=jax.devices()[:4])
    if outside == jax.sharding.AxisType.Explicit:
        f = jax.sharding.auto_axes(OTHER_AXES[name], axes="i", out_sharding=P("i"))
    else:
        f = jax.sharding.explicit_axes(OTHER_AXES[name], axes="i", in_sharding=P("i"))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(64.0).reshape(8, 8) / 9, P("i"))
        expected, found = (around(library.grad(lambda x: f(x).sum()))(x) for library in (jax, fgrad))
        assert jax.typeof(found) == jax.typeof(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
