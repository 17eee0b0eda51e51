"""``lax.reduce`` with a computation of the user's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
from tests.api.compare import same
from tests.oracle import compiled

X = jnp.arange(1.0, 25.0).reshape(2, 3, 4) / 10


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize(
    ("start", "computation"),
    [
        (-np.inf, jnp.logaddexp),
        (0.0, lambda a, b: jnp.sqrt(a * a + b * b)),
        (1.0, lambda a, b: a * b + 0.0),
        (0.0, lambda a, b: a + b + a * b),
    ],
)
def test_any_computation_is_differentiated(start, computation, dims):
    def f(x):
        return jnp.sum(jnp.sin(lax.reduce(x, jnp.float32(start), computation, dims)))

    value, gradient = compiled(jax.value_and_grad(f))(X)
    same(fgrad.value_and_grad(f)(X), (value, gradient), 1e-4)
    same(fgrad.jvp(f, (X,), (X,)), compiled(lambda x: jax.jvp(f, (x,), (x,)))(X), 1e-4)
    same(jax.jit(jax.vmap(fgrad.grad(f)))(jnp.stack([X, X + 1]))[0], gradient, 1e-4)


def test_several_arrays_at_once():
    def f(x, y):
        def combine(a, b):
            return a[0] + b[0], a[1] * b[1] + 0 * a[0]

        total, product = lax.reduce((x, y), (jnp.float32(0), jnp.float32(1)), combine, (1,))
        return jnp.sum(total * product)

    got = fgrad.grad(f, (0, 1))(X, X + 1)
    expected = jax.grad(lambda x, y: jnp.sum(jnp.sum(x, 1) * jnp.prod(y, 1)), (0, 1))(X, X + 1)
    same(got, expected, 1e-3)


def test_what_was_reduced_in_the_fast_lane():
    half = jnp.arange(6, dtype=jnp.float16)
    window = ((2,), (1,), "VALID")
    for x, start in ((half, 0.0), (half, np.float16(0)), (half.astype(jnp.complex64), 0j)):
        got = fgrad.grad(lambda x: jnp.real(fgrad.lax.reduce_window(x, start, lax.add, *window)).sum())(
            x if x.dtype == jnp.float16 else x.real
        )
        np.testing.assert_array_equal(got, [1, 2, 2, 2, 2, 1])
    counted = fgrad.jit(lambda n: fgrad.lax.reduce_window(n, 0, lax.add, *window))(jnp.arange(4))
    np.testing.assert_array_equal(counted, [1, 3, 5])


def test_methods_of_ufuncs_in_the_fast_lane():
    def f(np_like):
        return lambda x: (
            np_like.add.reduce(x) * np_like.multiply.reduce(x + 1)
            + np_like.add.accumulate(x)[2]
            + np_like.multiply.outer(x, x).sum()
            + np_like.add.at(x, 0, x[1], inplace=False)[0]
        )

    x = jnp.arange(4.0)
    same(fgrad.grad(f(fgrad.numpy))(x), jax.grad(f(jnp))(x))
    same(fgrad.numpy.add.reduce(x), jnp.add.reduce(x))
    assert fgrad.numpy.add.nin == 2 and fgrad.numpy.add.identity == 0


def test_a_constant_derivative_is_an_array_inside_of_jit():
    kinds = []

    def outer(x):
        for derivative in (fgrad.hessian, fgrad.jacfwd, fgrad.jacrev, fgrad.grad):
            for f in (lambda x: 3.0, lambda x: 3.0 * x):
                kinds.append(derivative(f)(x))
        return x

    jax.jit(outer)(1.0)
    assert all(isinstance(x, jax.Array) for x in kinds)


def test_a_start_that_is_a_python_number_leaves_the_type_of_the_operand():
    def f(x):
        return lax.reduce(x, 0.0, lambda a, b: a + b + a * b, (0,))

    x = jnp.ones((3, 2))
    assert not fgrad.vjp(f, x)[0].weak_type and not f(x).weak_type


@pytest.mark.parametrize("start", [3, 3.0])
def test_reductions_by_functions_made_anew_are_equal(start, tmp_path):
    def f(x):
        return lax.reduce(x, start, lambda a, b: a + b, (0,))

    x = jnp.full((3, 2), start)
    graph = fgrad.make_graph(f)(x)
    assert graph == fgrad.make_graph(f)(x)
    graph.save(tmp_path / "graph")
    np.testing.assert_array_equal(fgrad.load(tmp_path / "graph")(x), f(x))
    np.testing.assert_array_equal(jax.vmap(graph)(jnp.stack([x, x]))[1], f(x))
