"""Residuals of custom rules arrive as under JAX, Python values as they are; and rules are told of the same zeros."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.tree_util import Partial, register_pytree_node_class

import fgrad
from fgrad import errors

X = 1.5


def lanes(f, api):
    """One derivative of a scalar function in every lane."""
    yield "plain", lambda: api.grad(f)(X)
    yield "jit", lambda: api.jit(api.grad(f))(X)
    yield "jax.jit around", lambda: jax.jit(api.grad(f))(X)
    yield "of jax.jit", lambda: api.grad(jax.jit(f))(X)
    yield "vmap of grad", lambda: jax.vmap(api.grad(f))(jnp.arange(3.0))
    yield "grad of vmap", lambda: api.grad(lambda x: jax.vmap(f)(x).sum())(jnp.arange(3.0))
    yield "second order", lambda: api.grad(lambda x: api.grad(f)(x) * x)(X)
    yield "scan", lambda: api.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(X)
    yield "cond", lambda: api.grad(lambda x: lax.cond(x > 0, f, lambda y: y * 1.0, x))(X)
    yield "checkpoint", lambda: api.grad(api.checkpoint(f))(X)


def residual_function(residual):
    """A function whose backward rule writes down the residual that it gets."""

    def make(library, seen):
        @library.custom_vjp
        def f(x):
            return x * 1.0

        def bwd(r, ct):
            seen.append(r)
            return (ct * 2.0,)

        f.defvjp(lambda x: (x * 1.0, residual(x)), bwd)
        return f

    return make


KNOWN = {
    "bool": lambda x: True,
    "int": lambda x: 3,
    "float": lambda x: 2.5,
    "complex": lambda x: 1j,
    "None": lambda x: None,
    "numpy bool": lambda x: np.bool_(True),
    "numpy scalar": lambda x: np.float32(2),
    "float0": lambda x: np.zeros((), jax.dtypes.float0),
}


@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("kind", KNOWN)
def test_known_residuals_come_as_they_do_in_jax(kind, library):
    make = residual_function(KNOWN[kind])
    for i, (name, theirs) in enumerate(lanes(make(jax, expected := []), jax)):
        expected.clear()
        want = theirs()
        got = []
        _, ours = list(lanes(make(library, got), fgrad))[i]
        np.testing.assert_allclose(ours(), want, err_msg=name)
        assert got, name
        for r in got:
            assert type(r) is type(expected[0]), name
            if r is not None and kind != "float0":
                assert r == expected[0], name
                assert jax.typeof(r) == jax.typeof(expected[0]), name


@pytest.mark.parametrize("value", ["abc", object()])
def test_what_is_no_jax_value_is_refused_as_by_jax(value):
    for library, api in ((jax, jax), (jax, fgrad), (fgrad, fgrad)):
        f = residual_function(lambda x: value)(library, [])
        for _, run in lanes(f, api):
            with pytest.raises(TypeError, match="not a valid JAX type"):
                run()


@pytest.mark.parametrize("library", [jax, fgrad])
def test_a_numpy_residual_is_the_one_of_its_time(library):
    held = np.ones(2, np.float32)

    @library.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2, held), lambda r, ct: (ct * r.sum(),))
    _, pull = fgrad.vjp(f, 1.0)
    held[:] = 5
    assert pull(jnp.float32(1))[0] == 2


@register_pytree_node_class
class Node:
    def __init__(self, x, flag, name):
        self.x, self.flag, self.name = x, flag, name

    def tree_flatten(self):
        return (self.x, self.flag), self.name

    @classmethod
    def tree_unflatten(cls, name, children):
        return cls(*children, name)


def looks_up(library):
    @library.custom_vjp
    def f(x):
        return jnp.sin(x)

    def bwd(residuals, ct):
        x, flag, n, node, call = residuals
        slope = {True: 2.0, False: 0.0}[flag] if flag is True else 0.0
        by_number = {3: jnp.cos}[n](x) if isinstance(n, int) else 0.0
        by_node = 3.0 if node.flag is False and node.name == "node" else 0.0
        return (ct * (slope + by_number + by_node * node.x + call["k"](x)),)

    def fwd(x):
        call = Partial(lambda a, n, y: a * y if isinstance(n, int) else 0 * y, x, 2)
        return f(x), (x, True, 3, Node(x, False, "node"), {"k": call})

    f.defvjp(fwd, bwd)
    return f


def nondiff(library):
    @functools.partial(library.custom_vjp, nondiff_argnums=(1, 2))
    def f(x, n, mode):
        return x * n

    def bwd(n, mode, residuals, ct):
        x, m = residuals
        return ((ct * m * x if mode == "a" and isinstance(m, int) else 0 * ct) + n,)

    f.defvjp(lambda x, n, mode: (x * n, (x, n)), bwd)
    return lambda x: f(x, 3, "a") + f(x, 4, "a") + f(x, 4, "b")


def closes_over(library):
    """Arrays, a key and a number on which the backward rule branches."""
    array, ints, number = jnp.arange(3.0), np.arange(3), np.float32(3.0)

    @library.custom_vjp
    def f(x):
        return x**2

    def bwd(residuals, ct):
        x, a, b, c, key = residuals
        return (ct * x * (a.sum() + jnp.asarray(b)[1] + jax.random.uniform(key)) * (2.0 if c > 1 else 0.0),)

    f.defvjp(lambda x: (f(x), (x, array, ints, number, jax.random.key(3))), bwd)
    return f


def gradient(library):
    @jax.custom_gradient
    def f(x):
        k, flag = 3, True
        return x**2, lambda ct: ct * x * (k if flag is True and isinstance(k, int) else 0.0)

    return f


def converted(library):
    @functools.partial(library.custom_vjp, nondiff_argnums=(0,))
    def g(h, x, *consts):
        return h(x, *consts)

    def bwd(h, residuals, ct):
        x, consts, n = residuals
        return (ct * h(x, *consts) * (1.0 if isinstance(n, int) else 0.0), *[ct * jnp.ones_like(c) for c in consts])

    g.defvjp(lambda h, x, *consts: (h(x, *consts), (x, consts, len(consts))), bwd)

    def f(x):
        y = x * 3
        h, consts = jax.closure_convert(lambda a: jnp.sin(a * y), x)
        return g(h, x, *consts)

    return f


def weak(library):
    """A weak residual, cotangent or tangent does not widen a bfloat16."""

    @library.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (f(x, y), (x, y, 2.0)), lambda r, ct: ((ct * r[1]).astype(jnp.float32), ct * r[0] * r[2]))

    @library.custom_jvp
    def g(x, y):
        return x * y

    @g.defjvp
    def _(primals, tangents):
        (x, y), (t, u) = primals, tangents
        return g(x, y), t * y + x * u

    def whole(x):
        z = jnp.asarray(x, jnp.bfloat16)
        return (f(1.5, z) + g(1.5, z)).astype(jnp.float32) + g(x, jnp.bfloat16(2)).astype(jnp.float32)

    return whole


MAKERS = [looks_up, nondiff, closes_over, gradient, converted, weak]


@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("maker", MAKERS)
def test_gradients_are_those_of_jax(maker, library):
    pairs = zip(lanes(maker(library), fgrad), lanes(maker(jax), jax), strict=True)
    for (name, ours), (_, theirs) in pairs:
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-4, err_msg=name)


def test_equinox_residuals_that_are_no_arrays():
    eqx = pytest.importorskip("equinox")

    @eqx.filter_custom_vjp
    def f(args):
        x, n, _ = args
        return x * n

    @f.def_fwd
    def _(perturbed, args):
        x, n, mode = args
        return x * n, (x, n, mode, True, object)

    @f.def_bwd
    def _(residuals, ct, perturbed, args):
        x, n, mode, flag, kind = residuals
        right = isinstance(n, int) and mode == "tanh" and flag is True and kind is object
        return ct * x * (2.0 if right else 0.0), None, None

    def call(x):
        return f((x, 3, "tanh"))

    pairs = zip(lanes(call, fgrad), lanes(call, jax), strict=True)
    for (name, ours), (_, theirs) in pairs:
        # jax.grad of a Python float gives 0 here: equinox takes it for no array
        want = X * 2.0 if name == "plain" else theirs()
        np.testing.assert_allclose(ours(), want, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("library", [jax, fgrad])
def test_calls_with_other_known_residuals_take_other_branches(library):
    """The backward rule asks for cotangents, so that it is called when the backward pass runs."""

    @library.custom_vjp
    def f(x):
        return x**2

    def bwd(residuals, ct):
        x, large = residuals
        return (ct * x * (5.0 if large is True else 7.0) if ct > 0 else ct,)

    f.defvjp(lambda x: (f(x), (x, bool(x > 1))), bwd)
    assert [float(fgrad.grad(f)(x)) for x in (2.0, 0.5, 3.0)] == [10.0, 3.5, 15.0]
    assert float(fgrad.grad(lambda x: f(x) + f(x / 4))(2.0)) == 10.0 + 3.5 / 4


# --------------------------------------------------------------------------------------------------------------------
# rules that are told of zeros

C = jnp.arange(3.0) + 1


def told(library, log):
    @library.custom_vjp
    def f(x, y):
        return x * y

    def fwd(x, y):
        log.append((x.perturbed, y.perturbed))
        return x.value * y.value, (x.value, y.value)

    def bwd(residuals, ct):
        log.append("bwd")
        return ct * residuals[1], ct * residuals[0]

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


TOLD = {
    "plain": lambda f, api: api.grad(lambda x: f(x, C).sum()),
    "vmap": lambda f, api: api.grad(lambda x: jax.vmap(f)(x, C).sum()),
    "vmap of some": lambda f, api: api.grad(lambda x: jax.vmap(f, (0, None))(x, 2.0).sum()),
    "vmap of vmap": lambda f, api: api.grad(lambda x: jax.vmap(jax.vmap(f, (0, None)), (None, 0))(x, C).sum()),
    "both": lambda f, api: api.grad(lambda x: jax.vmap(f)(x, 2 * x).sum()),
    "stopped": lambda f, api: api.grad(lambda x: jax.vmap(f)(x, lax.stop_gradient(x)).sum()),
    "second argument": lambda f, api: lambda x: api.grad(lambda x, y: jax.vmap(f)(x, y).sum(), 1)(x, C),
    "jit": lambda f, api: api.jit(api.grad(lambda x: jax.vmap(f)(x, C).sum())),
    "jax.jit around": lambda f, api: jax.jit(api.grad(lambda x: jax.vmap(f)(x, C).sum())),
    "of jax.jit": lambda f, api: api.grad(jax.jit(lambda x: jax.vmap(f)(x, C).sum())),
    "vmap of grad": lambda f, api: jax.vmap(api.grad(lambda x: f(x, 2.0))),
    "scan": lambda f, api: api.grad(
        lambda x: lax.scan(lambda a, _: (jax.vmap(f)(a, C), None), x, None, length=2)[0].sum()
    ),
    "checkpoint": lambda f, api: api.grad(lambda x: api.checkpoint(lambda x: f(x, C))(x).sum()),
    "second order": lambda f, api: api.grad(
        lambda x: (api.grad(lambda x: jax.vmap(f)(x, C).sum())(x) * jnp.sin(x)).sum()
    ),
    "jax.grad of jit": lambda f, api: jax.grad(api.jit(lambda x: f(x, C).sum())),
}


@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("lane", TOLD)
def test_rules_are_called_as_often_and_told_the_same_as_by_jax(lane, library):
    expected, log = [], []
    want = TOLD[lane](told(jax, expected), jax)(jnp.arange(3.0))
    np.testing.assert_allclose(TOLD[lane](told(library, log), fgrad)(jnp.arange(3.0)), want, rtol=1e-6)
    assert log == expected


def other_residuals(library):
    """The residuals are others where the second argument has a tangent."""

    @library.custom_vjp
    def f(x, y):
        return x * y, x + y

    def fwd(x, y):
        kept = {"x": x.value, "y": y.value, "k": True} if y.perturbed else {"y": y.value}
        return (x.value * y.value, x.value + y.value), kept

    def bwd(r, ct):
        a, b = [0.0 if isinstance(c, jax.custom_derivatives.SymbolicZero) else c for c in ct]
        return a * r["y"] + b, (a * r["x"] * (3.0 if r["k"] is True else 0.0) + b if "x" in r else None)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


@pytest.mark.parametrize("library", [jax, fgrad])
def test_each_pattern_of_zeros_has_its_residuals(library):
    def whole(f):
        return lambda x: f(x, 2.0)[1] + f(x, x)[0] + f(x, 2.0)[0] + sum(f(x, 2.0))

    plain = other_residuals(library)
    # JAX itself fails where one jitted function is met with both patterns, so the expected values come without
    for f in (plain, jax.jit(plain)):
        pairs = zip(lanes(whole(f), fgrad), lanes(whole(other_residuals(jax)), jax), strict=True)
        for (name, ours), (_, theirs) in pairs:
            np.testing.assert_allclose(ours(), theirs(), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("library", [jax, fgrad])
def test_forward_mode_rules_are_told_of_zeros_under_vmap(library):
    def make(library):
        @library.custom_jvp
        def f(x, y):
            return x * y

        def rule(primals, tangents):
            (x, y), (t, u) = primals, tangents
            zero = jax.custom_derivatives.SymbolicZero
            return x * y, (0 * x if isinstance(t, zero) else t * y) + (10 * x if isinstance(u, zero) else u * x)

        f.defjvp(rule, symbolic_zeros=True)
        return f

    def whole(f):
        return lambda x: f(x, 2.0) + f(x, x) + jax.vmap(f, (None, 0))(x, jnp.ones(2)).sum()

    f, g = whole(make(library)), whole(make(jax))
    for x in (X, 0.5):
        for a, b in ((fgrad.jvp(f, (x,), (1.0,)), jax.jvp(g, (x,), (1.0,))),):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(fgrad.jit(f), (X,), (1.0,)), jax.jvp(g, (X,), (1.0,)), rtol=1e-6)


@pytest.mark.parametrize("library", [jax, fgrad])
def test_jax_is_refused_the_derivative_by_what_a_rule_closes_over(library):
    def closing(y):
        @library.custom_vjp
        def f(x):
            return x * y

        f.defvjp(lambda x: (x * y, None), lambda r, ct: (ct * y,))
        return f

    with pytest.raises(errors.ClosedOverError, match="closed-over"):
        jax.grad(lambda y: fgrad.jit(lambda x, y: closing(y)(x))(2.0, y))(3.0)
