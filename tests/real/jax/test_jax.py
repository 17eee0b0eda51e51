"""JAX's own: primitives that it does not export, and what its libraries are made of."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import checkify, pallas as pl
from jax.experimental.ode import odeint

from tests.real.jax.compare import compare, compare_errors

X = jnp.arange(8.0)


def kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.sin(x_ref[...]) * y_ref[...]


def product(x, y):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, y)


def test_a_kernel_of_pallas_in_forward_mode():
    compare(lambda lib: lib.jvp(product, (X, X), (X, X + 1)))
    compare(lambda lib: jax.jit(lambda x: lib.jvp(product, (x, x), (x, x + 1)))(X))
    compare_errors(lambda lib: lib.grad(lambda x: product(x, x).sum())(X))


@pytest.mark.real
def test_a_kernel_of_pallas_with_a_rule():
    @jax.custom_vjp
    def f(x, y):
        return product(x, y)

    f.defvjp(lambda x, y: (product(x, y), (x, y)), lambda r, ct: (ct * jnp.cos(r[0]) * r[1], ct * jnp.sin(r[0])))
    compare(lambda lib: lib.grad(lambda x: jnp.sum(f(x, x) ** 2))(X))


@pytest.mark.real
def test_checkify():
    def checked(x):
        checkify.check(x > 0, "bad {x}", x=x)
        return jnp.log(x)

    compare(lambda lib: checkify.checkify(lib.grad(checked))(2.0)[1])
    compare(lambda lib: lib.grad(lambda x: checkify.checkify(jnp.log, errors=checkify.float_checks)(x)[1])(2.0))


@pytest.mark.real
def test_optimize_remat():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda r, ct: (ct * jnp.cos(r),), optimize_remat=True)
    compare(lambda lib: (lib.grad(f)(2.0), jax.jit(lib.grad(f))(2.0), lib.grad(jax.jit(f))(2.0)))


@pytest.mark.real
def test_odeint():
    loss = lambda p: jnp.sum(odeint(lambda y, t, p: -p * y, jnp.ones(2), jnp.linspace(0, 1, 4), p))  # noqa: E731
    compare(lambda lib: lib.grad(loss)(jnp.array(0.7)))
