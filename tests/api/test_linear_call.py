"""``linear_call``: the user's transpose is kept, which is seven times the true one here."""

import jax
import jax.numpy as jnp
import pytest
from jax.custom_derivatives import linear_call

import fgrad
from fgrad import errors
from tests.api.compare import same

X = jnp.array([1.0, 2.0, 3.0])


def f(x, residual=2.0):
    return linear_call(
        lambda r, t: {"p": t[0] / r, "q": t[1] * X},
        lambda r, t: (7 * t["p"] / r, 7 * t["q"] * X),
        residual,
        (x, 2 * x),
    )


def total(x):
    y = f(x)  # JAX wants both of its results, or in second order it fails on a zero
    return jnp.sum(jnp.sin(y["p"]) * y["q"])


def slope(make):
    return lambda x: jnp.sum(make.grad(total)(x) ** 2)


def scanned(x):
    return jnp.sum(jax.lax.scan(lambda c, _: (f(c)["p"], None), x, None, length=3)[0])


CASES = {
    "forward": lambda make: make.jvp(f, (X,), (X,)),
    "reverse": lambda make: make.grad(total)(X),
    "jit": lambda make: make.jit(make.grad(make.jit(total)))(X),
    "scan": lambda make: make.grad(scanned)(X),
    "reverse twice": lambda make: make.grad(slope(make))(X),
    "forward over reverse": lambda make: make.jvp(make.grad(total), (X,), (X,)),
    "transposed": lambda make: make.linear_transpose(f, X)({"p": X, "q": X}),
    "transposed twice": lambda make: make.linear_transpose(
        lambda t: make.linear_transpose(f, X)({"p": t, "q": t})[0], X
    )(X),
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_jax(name):
    same(CASES[name](fgrad), CASES[name](jax))


def test_jax_finds_the_transpose_in_what_fgrad_has_recorded():
    same(jax.grad(fgrad.jit(total))(X), jax.grad(total)(X))


def test_a_file_holds_it(tmp_path):
    fgrad.make_graph(total)(X).save(tmp_path / "graph")
    same(fgrad.load(tmp_path / "graph").grad()(X), jax.grad(total)(X))


def test_calls_share_a_program():
    fgrad.clear_cache()
    for x in (X, X + 1, X + 2):
        fgrad.grad(total)(x)
    assert fgrad.cache_info().programs == 1


def test_what_it_says_nothing_about_is_refused():
    with pytest.raises(errors.UndefinedDerivativeError, match="residual"):
        fgrad.grad(lambda r: jnp.sum(f(X, r)["p"]))(2.0)
    with pytest.raises(errors.ClosedOverError, match="linear_call"):
        fgrad.grad(lambda x: linear_call(lambda _, t: t * X, lambda _, t: t * x, (), x).sum())(X)
    wrong = lambda x: linear_call(lambda _, t: t * X, lambda _, t: 1 / 0, (), x).sum()  # noqa: E731
    same(fgrad.jit(wrong)(X), jnp.sum(X * X))
    with pytest.raises(ZeroDivisionError):
        fgrad.grad(wrong)(X)
