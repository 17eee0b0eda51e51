"""JAX's own: primitives that it does not export, and what its libraries are made of."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
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


@pytest.mark.real
def test_what_was_exported_is_differentiated():
    exported = export.export(jax.jit(lambda x, y: jnp.sin(x) * y))(X, X)
    call = export.deserialize(exported.serialize(vjp_order=2)).call
    product = lambda x: jnp.sum(call(x, X))  # noqa: E731
    second = lambda lib: lib.grad(lambda x: jnp.sum(lib.grad(product)(x) ** 2))  # noqa: E731
    compare(lambda lib: (lib.grad(product)(X), lib.jit(lib.grad(product))(X), second(lib)(X)))
    first_only = export.deserialize(exported.serialize(vjp_order=0)).call
    compare_errors(lambda lib: lib.grad(lambda x: jnp.sum(first_only(x, X)))(X))


@pytest.mark.real
def test_a_gradient_is_exported_for_any_number_of_rows():
    def loss(x, w):
        states = lax.scan(lambda c, row: (c + jnp.sin(row), c), w[0], x @ w)[1]
        return jnp.mean(jax.nn.softmax(x @ w)[:, 0]) + jnp.sum(jnp.cumsum(x, 0)[-1]) + jnp.sum(states)

    def program(lib):
        rows = jax.ShapeDtypeStruct(export.symbolic_shape("n, 2"), jnp.float32)
        call = export.export(jax.jit(lib.value_and_grad(loss, (0, 1))))(rows, X[:4].reshape(2, 2)).call
        return [call(X[: 2 * n].reshape(n, 2), X[:4].reshape(2, 2)) for n in (1, 4)]

    compare(program)


@pytest.mark.real
def test_universal_functions():
    made = jnp.frompyfunc(lambda a, b: a * b + jnp.sin(a), 2, 1)
    own = [
        lambda x: jnp.sum(made.outer(x, x)),
        lambda x: made.reduce(x),
        lambda x: jnp.sum(made.accumulate(x) ** 2),
        lambda x: jnp.sum(jnp.add.at(x, jnp.array([0, 0]), x[:2] ** 2, inplace=False) ** 2),
        lambda x: jnp.sum(jnp.add.reduceat(x**2, jnp.array([0, 2])) ** 2),
        lambda x: jnp.sum(jnp.multiply.accumulate(x)),
        lambda x: jnp.logaddexp.reduce(x),
    ]
    compare(lambda lib: [lib.grad(f)(X[1:4]) for f in own])
    rows = lambda lib: jnp.vectorize(lib.grad(lambda a, b: jnp.sum(a * b**2), (0, 1)), signature="(n),(n)->(n),(n)")  # noqa: E731
    compare(lambda lib: rows(lib)(X.reshape(2, 4), X[:4]))


@pytest.mark.real
def test_a_loop_of_branches_in_forward_mode():
    def f(x, n):
        def body(carry):
            i, x, total = carry
            x = lax.cond(x > 0, lambda x: x * 0.5 - 0.3, lambda x: -x, x)
            return i + 1, x, total + lax.switch(i % 3, [jnp.sin, jnp.cos, jnp.square], x)

        return lax.while_loop(lambda carry: carry[0] < n, body, (0, x, 0.0 * x))[2]

    def program(lib):
        first = lambda x, n: lib.jvp(lambda x: f(x, n), (x,), (1.0,))  # noqa: E731
        return (
            lib.jvp(f, (1.3, 5), (1.0, np.zeros((), jax.dtypes.float0))),
            lib.jvp(lambda x: first(x, 3)[1], (1.3,), (1.0,)),
            jax.vmap(first)(X[:3], jnp.array([2, 5, 0])),
            lib.jit(lib.jacfwd(f))(1.3, 5),
        )

    compare(program)


@pytest.mark.real
def test_eigenvectors_where_they_are_allowed():
    a = jnp.array([[3.0, 1.0, 0.2], [0.3, 4.0, -0.5], [0.2, 0.9, 2.0]])

    def loss(a, **allowed):
        values, vectors = lax.linalg.eig(a, compute_left_eigenvectors=False, **allowed)
        return jnp.sum(jnp.abs(vectors) ** 3) + jnp.sum(jnp.real(values) ** 2)

    allowed = partial(loss, enable_eigvec_derivs=True)
    compare(lambda lib: (lib.grad(allowed)(a), lib.jvp(allowed, (a,), (a.T,)), lib.jit(lib.grad(allowed))(a)))
    compare_errors(lambda lib: lib.grad(loss)(a))


@pytest.mark.real
def test_configurations_around_a_gradient():
    def settings():
        yield jax.disable_jit()
        yield jax.checking_leaks()
        yield jax.default_matmul_precision("bfloat16")
        yield jax.numpy_dtype_promotion("strict")
        yield jax.ensure_compile_time_eval()

    def program(lib):
        out = []
        for setting in settings():
            with setting:
                loss = lambda w, x: jnp.sum(jnp.tanh(x @ w))  # noqa: E731
                w, x = X[:4].reshape(2, 2), X[1:3]
                out.append((lib.grad(loss, (0, 1))(w, x), lib.jit(lib.grad(loss))(w, x), lib.jvp(loss, (w, x), (w, x))))
        return out

    compare(program)
    with jax.debug_nans(True):
        compare_errors(lambda lib: lib.grad(lambda x: jnp.sqrt(x - x))(1.0))
    with jax.numpy_rank_promotion("raise"):
        compare_errors(lambda lib: lib.grad(lambda x: jnp.sum(x + X[None]))(X))
