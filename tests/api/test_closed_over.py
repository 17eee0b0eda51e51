"""Functions with rules of their own that close over what is differentiated: never a silently missing part."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental.ode import odeint

import fgrad
from fgrad.errors import ClosedOverError
from tests.api.compare import same


def with_vjp(library, x):
    @library.custom_vjp
    def f(y):
        return y * x

    f.defvjp(lambda y: (y * 3.0, None), lambda _, g: (g * 3.0,))
    return f(2.0)


def with_jvp(library, x):
    @library.custom_jvp
    def f(y):
        return y * x

    f.defjvp(lambda primals, tangents: (primals[0] * 3.0, tangents[0] * 3.0))
    return f(2.0)


@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("function", [with_vjp, with_jvp])
def test_the_derivative_in_a_closed_over_value_is_refused(function, library):
    f = jax.jit(lambda x: function(library, x))
    for transformed in (fgrad.grad(f), lambda x: fgrad.jvp(f, (x,), (1.0,)), jax.jit(fgrad.grad(f))):
        with pytest.raises(ClosedOverError, match="custom_.* with respect to a closed-over value"):
            transformed(3.0)
    assert issubclass(ClosedOverError, jax.errors.UnexpectedTracerError)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        fgrad.grad(lambda x: function(library, x))(3.0)


@pytest.mark.parametrize("function", [with_vjp, with_jvp])
def test_a_closed_over_value_without_derivative(function):
    f = jax.jit(lambda x: function(jax, fgrad.stop_gradient(x)) * x)
    assert fgrad.grad(f)(3.0) == 6.0


#: what a function computes of its argument without a derivative
WITHOUT_DERIVATIVE = {
    "a mask": lambda x: x > 0,
    "an index": lambda x: jnp.argmax(x) + 2,
    "cut": lambda x: jax.lax.stop_gradient(x) * 2,
    "rounded": lambda x: jnp.floor(x) + 1,
    "a sign": lambda x: 2 * jnp.sign(x),
}


def masked_vjp(library, y):
    f = library.custom_vjp(lambda z: jnp.sin(z) * y)
    f.defvjp(lambda z: (jnp.sin(z) * y, z), lambda z, g: (7 * y * g * jnp.cos(z),))
    return f


def masked_vjp_with_zeros(library, y):
    f = library.custom_vjp(lambda z: jnp.sin(z) * y)
    f.defvjp(lambda z: (jnp.sin(z.value) * y, z.value), lambda z, g: (7 * y * g * jnp.cos(z),), symbolic_zeros=True)
    return f


def masked_jvp(library, y, zeros=False):
    f = library.custom_jvp(lambda z: jnp.sin(z) * y)
    f.defjvp(lambda p, t: (jnp.sin(p[0]) * y, 7 * y * t[0] * jnp.cos(p[0])), symbolic_zeros=zeros)
    return f


def masked_jvp_with_zeros(library, y):
    return masked_jvp(library, y, True)


@pytest.mark.parametrize("make", [masked_vjp, masked_vjp_with_zeros, masked_jvp, masked_jvp_with_zeros])
@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_a_rule_may_close_over_what_no_derivative_passes_through(name, library, make):
    x = jnp.array([1.5, -2.0, 3.0])

    def results(derivatives, library):
        grad = derivatives.grad(lambda x: make(library, WITHOUT_DERIVATIVE[name](x))(x).sum())
        hessian = derivatives.jacrev(lambda x: grad(x) * x)
        return (
            grad(x),
            jax.jit(grad)(x),
            grad(x),
            hessian(x),
            jax.jit(hessian)(x),
            jax.vmap(grad)(jnp.stack([x, 2 * x])),
        )

    for ours, theirs in zip(results(fgrad, library), results(jax, jax), strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("make", [masked_vjp, masked_jvp])
@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_such_a_rule_may_be_called_on_numbers(name, make):
    x = jnp.array([1.5, -2.0, 3.0])

    def results(library):
        grad = library.grad(lambda x: (make(library, WITHOUT_DERIVATIVE[name](x))(jnp.ones(3)) * x**2).sum())
        hessian = library.jacrev(grad)
        mapped = jax.vmap(grad)(jnp.stack([x, 2 * x]))
        return grad(x), jax.jit(grad)(x), hessian(x), jax.jit(hessian)(x), mapped

    for ours, theirs in zip(results(fgrad), results(jax), strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_a_nondiff_argument_may_be_what_no_derivative_passes_through(name):
    def grad(library, of=WITHOUT_DERIVATIVE[name]):
        @functools.partial(library.custom_vjp, nondiff_argnums=(0,))
        def f(y, z):
            return jnp.sin(z) * y["y"]

        f.defvjp(lambda y, z: (f(y, z), z), lambda y, z, g: (7 * y["y"] * g * jnp.cos(z),))
        return library.grad(lambda x: f({"y": of(x)}, x).sum() + f(z=x, y={"y": x > 1}).sum())

    x = jnp.array([1.5, -2.0, 3.0])
    same(grad(fgrad)(x), grad(jax)(x))
    with pytest.raises(jax.errors.UnexpectedTracerError):
        grad(fgrad, jnp.sin)(x)


def test_jax_closure_convert_finds_what_is_differentiated():
    def apply(f, y):
        converted, consts = jax.closure_convert(f, y)
        return by_hand(converted, y, *consts)

    @jax.custom_vjp
    def by_hand(f, y, *consts):
        return f(y, *consts)

    by_hand = jax.custom_vjp(by_hand.fun, nondiff_argnums=(0,))
    by_hand.defvjp(
        lambda f, y, *consts: (f(y, *consts), (y, consts)),
        lambda f, kept, g: (jnp.zeros_like(kept[0]), *(7.0 * g * jnp.ones_like(c) for c in kept[1])),
    )
    number = jnp.int32(2)
    assert fgrad.grad(lambda x: apply(lambda y: y * x * number, 2.0))(3.0) == 7.0
    assert fgrad.grad(lambda x: apply(lambda y: y * number, 2.0) * x)(3.0) == 4.0


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
def test_an_ode_with_a_closed_over_parameter(wrap):
    start, times = jnp.arange(4.0) + 1, jnp.linspace(0, 1, 5)
    solve = wrap(lambda x: odeint(lambda y, t: -x * y + jnp.sin(t), start, times).sum())
    expected = jax.grad(solve)(0.7)
    assert jnp.allclose(fgrad.grad(solve)(0.7), expected, rtol=1e-5)
    assert jnp.allclose(jax.jit(fgrad.grad(solve))(0.7), expected, rtol=1e-5)
    with jax.checking_leaks():
        assert jnp.allclose(fgrad.grad(solve)(0.7), expected, rtol=1e-5)


def _rule_closing_over(kind, y):
    """sin with a rule that is scaled by ``y``."""
    if kind == "jvp":
        f = jax.custom_jvp(jnp.sin)
        f.defjvp(lambda primals, tangents: (jnp.sin(*primals), jnp.cos(*primals) * tangents[0] * y))
        return f
    f = jax.custom_vjp(jnp.sin)
    if kind == "fwd":
        f.defvjp(lambda x: (jnp.sin(x), x * y), lambda res, ct: (jnp.cos(res) * ct,))
    else:
        f.defvjp(lambda x: (jnp.sin(x), x), lambda res, ct: (jnp.cos(res) * ct * y,))
    return f


#: a function in a region, and what it computes: JAX fails on some of these regions
_REGIONS = {
    "block": (fgrad.checkpoint, lambda f: f),
    "loop": (lambda f: lambda x: lax.fori_loop(0, 2, lambda i, y: f(y), x), lambda f: lambda x: f(f(x))),
    "branch": (lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x), lambda f: f),
}


@pytest.mark.parametrize("around", ["jit", "value_and_grad"])
@pytest.mark.parametrize("region", _REGIONS)
@pytest.mark.parametrize("kind", ["jvp", "fwd", "bwd"])
def test_a_rule_in_a_region_closes_over_a_value_of_an_outer_recording(kind, region, around):
    def outer(library, wrap):
        def function(x):
            return library.grad(wrap(_rule_closing_over(kind, x * 2.0)))(x) * 3.0

        return getattr(library, around)(function)(jnp.float32(0.7))

    wrap, alike = _REGIONS[region]
    same(outer(fgrad, wrap), outer(jax, alike))


WEIGHTS = jnp.arange(3.0)

AGAIN = {
    "jit": lambda f: jax.vmap(jax.jit(f)),
    "jit in jit": lambda f: jax.jit(jax.vmap(jax.jit(f))),
    "twice": lambda f: lambda x: jax.vmap(jax.vmap(jax.jit(f)))(x[None]),
    "scan": lambda f: jax.vmap(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]),
    "cond": lambda f: jax.vmap(lambda x: lax.cond(x > 1.0, f, jnp.sin, x)),
    "checkpoint": lambda f: jax.vmap(jax.checkpoint(f)),
}


def with_weights(weights):
    @jax.custom_vjp
    def f(x):
        return x * jnp.dot(weights, weights)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * x * 3.0,))
    return f


@pytest.mark.parametrize("name", AGAIN)
def test_arrays_that_a_function_closes_over_where_jax_traces_it_again(name):
    """They become arguments of the rule, which refuses them as perturbed."""

    def loss(x):
        return jnp.sum(AGAIN[name](with_weights(WEIGHTS))(x))

    x = jnp.arange(4.0)
    for wrap in (lambda f: f, fgrad.jit, jax.jit):
        same(wrap(fgrad.grad(loss))(x), jax.grad(loss)(x))
    with pytest.raises(Exception, match="closed-over value"):
        fgrad.grad(lambda w: jnp.sum(AGAIN[name](with_weights(w))(x)))(WEIGHTS)


def test_an_ode_with_an_array_of_its_own_under_vmap():
    def loss(w):
        times = jnp.linspace(0.0, 1.0, 3)
        return jnp.sum(jax.vmap(lambda y: odeint(lambda y, t: -w * y, y, times)[-1])(jnp.ones(2)))

    same(fgrad.grad(loss)(jnp.float32(0.5)), jax.grad(loss)(jnp.float32(0.5)))
