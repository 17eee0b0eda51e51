"""Code written for JAX, differentiated unchanged: optax, flax, equinox, jax.scipy, attention, an ODE solver."""

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax import lax

import fgrad


def same(ours, theirs, rtol=2e-5, atol=2e-6):
    a, b = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def test_optax_losses():
    logits, labels = jnp.array([[0.2, -1.0, 3.0], [0.5, 0.1, 0.0]]), jnp.array([2, 0])
    for loss in (
        lambda z: optax.softmax_cross_entropy_with_integer_labels(z, labels).mean(),
        lambda z: optax.huber_loss(z, jnp.ones_like(z)).sum(),
        lambda z: optax.sigmoid_binary_cross_entropy(z, jax.nn.one_hot(labels, 3)).sum(),
        lambda z: optax.cosine_similarity(z, jnp.ones_like(z)).sum(),
        lambda z: optax.log_cosh(z, jnp.zeros_like(z)).sum(),
    ):
        same(fgrad.grad(loss)(logits), jax.grad(loss)(logits))
        same(fgrad.jit(fgrad.grad(loss))(logits), jax.grad(loss)(logits))


def test_optax_training_step():
    def train(lib):
        opt = optax.adam(0.1)
        w = jnp.ones(3)
        state = opt.init(w)
        for _ in range(5):
            g = lib.grad(lambda w: jnp.sum((w * jnp.arange(3.0) - 1.0) ** 2))(w)
            updates, state = opt.update(g, state)
            w = optax.apply_updates(w, updates)
        return w

    same(train(fgrad), train(jax))


class Net(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Dense(8)(x))
        x = linen.LayerNorm()(x)
        return linen.Dense(3)(x)


def test_flax_linen_module():
    net = Net()
    x = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)
    params = net.init(jax.random.key(0), x)
    loss = lambda p: jnp.mean(net.apply(p, x) ** 2)  # noqa: E731
    same(fgrad.grad(loss)(params), jax.grad(loss)(params))
    same(fgrad.jit(fgrad.grad(loss))(params), jax.grad(loss)(params))


def test_flax_nnx_module():
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    graphdef, state = nnx.split(model)
    x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    loss = lambda s: jnp.sum(jnp.tanh(nnx.merge(graphdef, s)(x)))  # noqa: E731
    same(fgrad.grad(loss)(state), jax.grad(loss)(state))


def test_equinox_module():
    model = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)
    x = jnp.array([0.1, -0.4, 0.7])
    loss = lambda p: jnp.sum(eqx.combine(p, static)(x) ** 2)  # noqa: E731
    same(fgrad.grad(loss)(params), jax.grad(loss)(params))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.scipy.special.logsumexp(x),
        lambda x: jax.scipy.stats.norm.logpdf(x).sum(),
        lambda x: jax.scipy.special.gammaln(x + 2).sum(),
        lambda x: jax.scipy.stats.gamma.logpdf(x + 2, 1.5).sum(),
        lambda x: jnp.linalg.det(jnp.outer(x, x) + 2 * jnp.eye(3)),
        lambda x: jax.scipy.linalg.expm(jnp.outer(x, x) * 0.1).sum(),
        lambda x: jnp.linalg.cholesky(jnp.outer(x, x) + jnp.eye(3)).sum(),
        lambda x: jax.scipy.special.betainc(1.5, 2.5, jax.nn.sigmoid(x)).sum(),
        lambda x: jnp.interp(0.3, jnp.sort(x), x * 2),
        lambda x: jnp.fft.ifft(jnp.fft.fft(x) ** 2).real.sum(),
        lambda x: jnp.percentile(x, 30.0),
        lambda x: jnp.linalg.lstsq(jnp.outer(x, x) + jnp.eye(3), x)[0].sum(),
        lambda x: jax.nn.dot_product_attention(
            x.reshape(1, 3, 1, 1), x.reshape(1, 3, 1, 1), x.reshape(1, 3, 1, 1)
        ).sum(),
        lambda x: jnp.convolve(x, jnp.ones(2)).sum() + jnp.cov(jnp.stack([x, x**2]))[0, 1] + jnp.nanmean(x),
        lambda x: jax.nn.standardize(x)[0] + jax.nn.glu(x[:2]).sum(),
        lambda x: jax.scipy.linalg.solve_triangular(jnp.tril(jnp.outer(x, x) + jnp.eye(3)), x, lower=True).sum(),
        lambda x: jnp.linalg.norm(x, 3) + jnp.polyval(x, 0.3),
    ],
)
def test_library_functions(f):
    x = jnp.array([0.3, -0.8, 1.1])
    same(fgrad.grad(f)(x), jax.grad(f)(x), rtol=1e-3, atol=1e-4)
    same(fgrad.jvp(f, (x,), (jnp.ones(3),)), jax.jvp(f, (x,), (jnp.ones(3),)), rtol=1e-3, atol=1e-4)


def test_attention_block():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((5, 8)), jnp.float32)
    w = {
        k: jnp.asarray(np.random.default_rng(i).standard_normal((8, 8)), jnp.float32) * 0.3
        for i, k in enumerate("qkvo")
    }

    def f(w, x):
        q, k, v = (x @ w[n] for n in "qkv")
        a = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((5, 5))) > 0, q @ k.T / 8**0.5, -1e9))
        return jnp.sum((a @ v @ w["o"]) ** 2)

    same(fgrad.grad(f)(w, x), jax.grad(f)(w, x), rtol=1e-4)


def test_ode_solver_forward_mode():
    def solve(k):
        def step(carry):
            t, y = carry
            slope = lambda y: -k * y + jnp.sin(y)  # noqa: E731
            a = slope(y)
            b = slope(y + 0.01 * a)
            return t + 0.02, y + 0.01 * (a + b)

        return lax.while_loop(lambda c: c[0] < 1.0, step, (0.0, 1.0))[1]

    same(fgrad.jacfwd(solve)(0.7), jax.jacfwd(solve)(0.7))
    same(fgrad.jvp(fgrad.jit(solve), (0.7,), (1.0,)), jax.jvp(solve, (0.7,), (1.0,)))
    with pytest.raises(fgrad.errors.ReverseWhileError, match="lax.scan"):
        fgrad.grad(solve)(0.7)


def test_random_functions():
    key = jax.random.key(3)
    f = lambda x: jnp.sum(jax.random.normal(key, (3,)) * x + jax.random.gamma(key, x + 1.0))  # noqa: E731
    x = jnp.array([0.5, 1.5, 2.5])
    same(fgrad.grad(f)(x), jax.grad(f)(x), rtol=1e-4)
    drop = lambda x: jnp.sum(jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0))  # noqa: E731
    same(fgrad.grad(drop)(x), jax.grad(drop)(x))


@pytest.mark.parametrize("library", [jax, fgrad], ids=["jax", "fgrad"])
def test_functions_by_the_schur_form_raise_what_jax_raises(library):
    # in reverse mode the loop that follows the Schur form is met first
    with pytest.raises(NotImplementedError):
        library.grad(lambda a: jnp.sum(jnp.real(jax.scipy.linalg.sqrtm(a))))(jnp.array([[4.0, 1.0], [2.0, 3.0]]))
