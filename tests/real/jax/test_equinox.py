"""equinox: its loops, its primitives and its wrappers of JAX's custom rules."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import pytest

import fgrad
from tests.real.jax.compare import compare, compare_errors

P = jnp.array([0.7, 0.4])
X = jnp.arange(3.0)


def loop(kind, **options):
    def loss(p):
        start = (0, jnp.array([0.3, 0.5]))
        return jnp.sum(
            eqxi.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.sin(c[1] * p)), start, kind=kind, **options)[1]
        )

    return loss


def test_a_bounded_loop():
    compare(lambda lib: lib.value_and_grad(loop("bounded", max_steps=16))(P))


def test_forward_mode_of_an_unbounded_loop():
    compare(lambda lib: lib.jvp(loop("lax"), (P,), (P,)))


@pytest.mark.real
def test_a_loop_with_checkpoints():
    loss = loop("checkpointed", max_steps=16)
    compare(lambda lib: (lib.value_and_grad(loss)(P), jax.vmap(lib.grad(loss))(jnp.stack([P, 2 * P]))))


@pytest.mark.real
def test_a_loop_with_a_buffer():
    def loss(x):
        step = lambda c: (c[0] + 1, c[1].at[c[0]].set(jnp.sin(x * c[0])))  # noqa: E731
        start, options = (0, jnp.zeros(4)), {"max_steps": 4, "buffers": lambda c: c[1]}
        return jnp.sum(eqxi.while_loop(lambda c: c[0] < 3, step, start, kind="checkpointed", **options)[1])

    compare(lambda lib: lib.grad(loss)(jnp.array(0.3)))


@pytest.mark.real
@pytest.mark.parametrize("kind", ["lax", "checkpointed"])
def test_a_scan(kind):
    def loss(p):
        return jnp.sum(eqxi.scan(lambda c, x: (jnp.sin(c * p + x), c), P, jnp.ones((6, 2)), kind=kind)[0])

    compare(lambda lib: lib.value_and_grad(loss)(P))


def test_noinline():
    block = eqxi.noinline(lambda x, y: jnp.sin(x) * y)
    loss = lambda x: jnp.sum(block(x, x + 1) ** 2)  # noqa: E731
    compare(lambda lib: (lib.grad(loss)(X), lib.jvp(loss, (X,), (X,)), jax.jit(lib.grad(loss))(X)))


def test_error_if():
    loss = lambda x: jnp.sum(eqx.error_if(x, jnp.any(x < 0), "negative") ** 2)  # noqa: E731
    compare(lambda lib: (lib.grad(loss)(X), jax.jit(lib.grad(loss))(X)))
    compare_errors(lambda lib: lib.grad(loss)(-X))


def test_what_may_not_be_differentiated():
    compare_errors(lambda lib: lib.grad(lambda x: jnp.sum(eqxi.nondifferentiable(x)))(X))
    forward_only = lambda x: jnp.sum(eqxi.nondifferentiable_backward(x) ** 2)  # noqa: E731
    compare(lambda lib: lib.jvp(forward_only, (X,), (X,)))
    compare_errors(lambda lib: lib.grad(forward_only)(X))


def test_filter_custom_vjp():
    @eqx.filter_custom_vjp
    def product(x, y):
        return x * y

    product.def_fwd(lambda perturbed, x, y: (x * y, (x, y)))
    product.def_bwd(lambda residuals, ct, perturbed, x, y: ct * 3 * residuals[1])
    compare(lambda lib: lib.grad(lambda x: product(x, 2.0).sum())(X))


def test_filter_checkpoint_and_filter_jit():
    model = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(params):
        call = eqx.filter_jit(lambda m, x: jnp.sum(eqx.filter_checkpoint(m)(x) ** 2))
        return call(eqx.combine(params, static), X)

    compare(lambda lib: lib.grad(loss)(params))


def test_filter_jvp_inside_and_around():
    def directional(p, x):
        return eqx.filter_jvp(lambda x, name: (jnp.sin(p * x), name), (x, "sin"), (x, None))[1][0]

    compare(lambda lib: lib.jacrev(lambda p: directional(p, X))(1.5))
    compare(lambda lib: eqx.filter_jvp(lib.grad(lambda x: jnp.sum(x**3)), (X,), (X,)))


def test_filter_jvp_refuses_another_jvp_than_that_of_jax(monkeypatch):
    monkeypatch.setattr(jax, "jvp", fgrad.jvp)
    with pytest.raises(NotImplementedError, match="leave jax.jvp itself as it is"):
        eqx.filter_jvp(jnp.sin, (X,), (X,))
