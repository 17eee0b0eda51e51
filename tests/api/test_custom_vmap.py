"""Functions with a batching rule of their own (``jax.custom_batching.custom_vmap``), differentiated and mapped.

The rules here disagree with their functions, so that one sees which of them was followed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from tests.api.compare import same

XS = jnp.array([0.5, 1.0, 2.0])


@jax.custom_batching.custom_vmap
def sin(x):
    return jnp.sin(x)


@sin.def_vmap
def _ten_times(size, in_batched, x):
    return 10 * jnp.sin(x), in_batched[0]


@jax.custom_batching.custom_vmap
def product(x, y):
    return x * y


@product.def_vmap
def _thrice(size, in_batched, x, y):
    return 3 * x * y, any(in_batched)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
@pytest.mark.parametrize(
    "mapped",
    [
        lambda of: jax.vmap(lambda x, t: of.jvp(sin, (x,), (t,)))(XS, XS),
        lambda of: jax.vmap(lambda x: of.jvp(sin, (x,), (1.0,)))(XS),
        lambda of: jax.vmap(lambda t: of.jvp(sin, (1.0,), (t,))[1])(XS),
        lambda of: of.jvp(jax.vmap(sin), (XS,), (XS,)),
        lambda of: of.jvp(sin, (1.0,), (1.0,)),
        lambda of: of.jacfwd(sin)(XS),
        lambda of: of.jacfwd(sin)(1.0),
        lambda of: of.jacfwd(jax.vmap(sin))(XS),
        lambda of: jax.vmap(lambda x, y, t: of.jvp(product, (x, y), (t, t)))(XS, 2 * XS, XS),
    ],
    ids=["both", "primal", "tangent", "of_vmap", "plain", "jacfwd", "scalar", "jacfwd_of_vmap", "two"],
)
def test_a_tangent_follows_the_batching_rule(mapped, wrap):
    same(wrap(lambda: mapped(fgrad))(), wrap(lambda: mapped(jax))())


def test_the_second_tangent_follows_it_too():
    def second(x, t):
        return fgrad.jvp(lambda x: fgrad.jvp(sin, (x,), (t,))[1], (x,), (t,))[1]

    np.testing.assert_allclose(jax.vmap(second)(XS, XS), -10 * XS**2 * jnp.sin(XS), rtol=1e-6)


def test_what_is_mapped_in_one_argument_only_has_the_shapes_of_the_function():
    # JAX gives a (3, 3) array here
    out, tangent = jax.vmap(lambda x, y, t: fgrad.jvp(lambda x: product(x, y), (x,), (t,)))(XS, 2 * XS, XS)
    np.testing.assert_allclose(out, 6 * XS * XS, rtol=1e-6)
    np.testing.assert_allclose(tangent, 6 * XS * XS, rtol=1e-6)
    none = np.zeros((), jax.dtypes.float0)
    out, tangent = jax.vmap(lambda x, n: fgrad.jvp(product, (x, n), (x, none)))(XS, jnp.arange(3))
    np.testing.assert_allclose(out, 3 * XS * jnp.arange(3), rtol=1e-6)
    np.testing.assert_allclose(tangent, 3 * XS * jnp.arange(3), rtol=1e-6)


def test_values_that_the_function_closes_over():
    def f(w, x):
        @jax.custom_batching.custom_vmap
        def scaled(x):
            return w * x

        scaled.def_vmap(lambda size, in_batched, x: (jnp.stack([w * a for a in x]), True))
        return scaled(x)

    def mapped(of):
        return jax.vmap(lambda x, t: of.jvp(lambda x: f(2.0, x), (x,), (t,)))(XS, XS)

    same(mapped(fgrad), mapped(jax))
