"""Primitives that bring their own rules (``jax.experimental.hijax``), JAX's and a user's, keep them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax

import fgrad
from tests.api.compare import same

HiPrim: Any = getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive  # type: ignore[attr-defined]
X = jnp.array([0.3, -1.7, 2.5])


class Pulled(HiPrim):
    """sin(x) y with a reverse-mode rule of its own: twice, thrice."""

    def __init__(self, x: Any, y: Any):
        self.in_avals = ({"x": x}, y)
        self.out_aval = [x]
        self.params = {"x": x, "y": y}
        super().__init__()

    def expand(self, tree, y):
        return [jnp.sin(tree["x"]) * y]

    def vjp_fwd(self, nzs_in, tree, y):
        return self(tree, y), (tree["x"], y, nzs_in)

    def vjp_bwd_retval(self, res, ct):
        (x, y, nzs_in), (ct,) = res, ct
        assert nzs_in[0] == {"x": True}
        return {"x": 2 * ct * jnp.cos(x) * y}, 3 * ct * jnp.sin(x)


class Accumulated(Pulled):
    """The same rule, which adds up its cotangents itself; that of y comes in two parts."""

    vjp_bwd_retval = HiPrim.vjp_bwd_retval

    def vjp_bwd(self, res, ct, tree, y_accumulator):
        (x, y, _), (ct,) = res, ct
        tree["x"].accum(2 * ct * jnp.cos(x) * y)
        for part in (1, 2):
            y_accumulator.accum(part * ct * jnp.sin(x))


class Pushed(HiPrim):
    """x^2 and a count, with a forward-mode rule of its own: ten times."""

    def __init__(self, x: Any, n: Any):
        self.in_avals = (x, n)
        self.out_aval = (x, n)
        self.params = {"x": x, "n": n}
        super().__init__()

    def expand(self, x, n):
        return x * x, n + 1

    def jvp(self, primals, tangents):
        (x, n), (t, zero) = primals, tangents
        assert isinstance(zero, hijax.Zero)
        return self(x, n), (10 * t * x, zero)


class Bare(HiPrim):
    """x^2 without any rule."""

    def __init__(self, x: Any):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {"x": x}
        super().__init__()

    def expand(self, x):
        return x * x


def pulled(x: Any, y: Any) -> Any:
    return Pulled(jax.typeof(X[0]), jax.typeof(X[0]))({"x": x}, y)[0]


def accumulated(x: Any, y: Any) -> Any:
    return Accumulated(jax.typeof(X[0]), jax.typeof(X[0]))({"x": x}, y)[0]


def pushed(x: Any) -> Any:
    return Pushed(jax.typeof(X[0]), jax.typeof(jnp.int32(1)))(x, jnp.int32(1))[0]


def in_scan(f: Any) -> Any:
    return lambda x, *rest: jax.lax.scan(lambda c, _: (f(c, *rest), None), x, None, length=2)[0]


@pytest.mark.parametrize("around", [lambda f: f, jax.jit, in_scan], ids=["plain", "jit", "scan"])
def test_the_users_rules(around):
    x, y = X[0], X[2]
    for ours in (fgrad.grad(around(pulled), (0, 1)), fgrad.jit(fgrad.grad(around(pulled), (0, 1)))):
        same(ours(x, y), jax.grad(around(pulled), (0, 1))(x, y))
    if around is not in_scan:
        same(fgrad.grad(around(pushed))(x), 10 * x)
        same(fgrad.grad(fgrad.grad(around(pushed)))(x), jnp.float32(10.0))
    same(fgrad.jvp(around(pushed), (x,), (y,)), jax.jvp(around(pushed), (x,), (y,)))
    assert np.allclose(around(pulled)(x, y), fgrad.make_graph(around(pulled))(x, y)(x, y))


def test_a_rule_that_adds_up_its_cotangents():
    for around in (lambda f: f, jax.jit, in_scan):
        same(fgrad.grad(around(accumulated), (0, 1))(X[0], X[2]), jax.grad(around(pulled), (0, 1))(X[0], X[2]))
    same(fgrad.grad(accumulated)(X[0], X[2]), jax.grad(accumulated)(X[0], X[2]))


def test_without_a_rule_it_says_which_is_missing():
    f = Bare(jax.typeof(X))
    assert np.allclose(fgrad.jit(lambda x: f(x))(X), X * X)
    with pytest.raises(NotImplementedError, match="vjp_fwd"):
        fgrad.grad(lambda x: f(x).sum())(X)


def test_rules_hold_under_jax_too():
    same(jax.grad(fgrad.jit(pulled), (0, 1))(X[0], X[2]), jax.grad(pulled, (0, 1))(X[0], X[2]))
    same(jax.vmap(fgrad.grad(pulled))(X, X), jnp.stack([jax.grad(pulled)(x, x) for x in X]))


FUNCTIONS = {
    "frexp": lambda x: jnp.frexp(x)[0],
    "ldexp": lambda x: jnp.ldexp(jnp.sin(x), jnp.array([3, -2, 0])),
    "custom_root": lambda x: jax.lax.custom_root(
        lambda z: z * z - x * x,
        jnp.ones(3),
        lambda f, z: jax.lax.while_loop(lambda z: jnp.any(jnp.abs(f(z)) > 1e-5), lambda z: z - f(z) / (2 * z), z),
        lambda g, b: jnp.linalg.solve(jax.jacobian(g)(b), b),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_those_of_jax(name):
    f = FUNCTIONS[name]
    same(fgrad.jvp(f, (X,), (X,)), jax.jvp(f, (X,), (X,)))
    same(fgrad.vjp(f, X)[1](X), jax.vjp(f, X)[1](X))
    same(fgrad.jacrev(fgrad.jit(f))(X), jax.jacrev(f)(X))

    def slope(g: Any) -> Any:
        return lambda x: g(lambda z: jnp.sum(f(z) ** 3))(x)

    same(fgrad.jvp(slope(fgrad.grad), (X,), (X,)), jax.jvp(slope(jax.grad), (X,), (X,)), 1e-4)
    same(fgrad.vjp(slope(fgrad.grad), X)[1](X), jax.vjp(slope(jax.grad), X)[1](X), 1e-4)


@pytest.fixture
def rules_as_primitives():
    """``jax.custom_vjp`` made of the primitives tested here."""
    jax.config.update("jax_custom_vjp3", True)
    yield
    jax.config.update("jax_custom_vjp3", False)


@pytest.mark.parametrize("around", [lambda f: f, jax.jit, lambda f: lambda x: jax.vmap(f)(X * x)[0]])
def test_a_custom_vjp_made_of_such_a_primitive(around, rules_as_primitives):
    def run(lib):
        @jax.custom_vjp
        def f(x, y):
            return x * y

        f.defvjp(lambda x, y: (x * y, (x, y)), lambda res, ct: (3 * ct * res[1], ct * res[0]))

        def loop(x):
            return jax.lax.scan(lambda c, _: (f(c, x), None), x, None, length=2)[0]

        return [around(g)(2.0) for g in (lib.grad(lambda x: f(x, 3.0)), lib.grad(loop), lib.grad(lib.grad(loop)))]

    same(run(fgrad), run(jax))


def test_a_rule_is_told_of_zeros(rules_as_primitives):
    def run(lib):
        @jax.custom_vjp
        def f(x, y):
            return x * y, y

        def fwd(x, y):
            return f(x.value, y.value), (x.value, y.value, x.perturbed, y.perturbed)

        def bwd(res, cts):
            x, y, by_x, by_y = res
            unused = isinstance(cts[1], jax.custom_derivatives.SymbolicZero)
            return (10 if unused else 1) * cts[0] * y if by_x else None, cts[0] * x if by_y else None

        f.defvjp(fwd, bwd, symbolic_zeros=True)
        functions = lambda x: f(x, 3.0)[0], lambda x: f(3.0, x)[0], lambda x: sum(f(x, x)), lambda x: f(x, x)[0]
        return [lib.grad(g)(2.0) for g in functions]

    same(run(fgrad), run(jax))
