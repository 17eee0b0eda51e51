"""Prints and checks in regions: each happens once, and the derivative goes through."""

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify

import fgrad


def in_scan(x):
    def body(c, s):
        jax.debug.print("c={}", c)
        return jnp.sin(c) * s, c

    return sum(jnp.sum(part) for part in lax.scan(body, x, jnp.arange(1.0, 3.0)))


def in_loop(x):
    return lax.fori_loop(0, 2, lambda i, c: (jax.debug.print("{} {}", i, c), jnp.cos(c))[1], x)


def in_branch(x):
    return lax.cond(x > 0, lambda y: (jax.debug.print("y={}", y), y * y)[1], jnp.sin, x)


def in_branch_of_a_scan(x):
    return lax.scan(lambda c, _: (in_branch(c) + 1.0, None), x, None, length=2)[0]


def in_checkpoint(x):
    return lax.scan(lambda c, _: (jax.checkpoint(in_branch)(c), None), x, None, length=2)[0]


def in_jit(x):
    return jax.jit(in_scan)(x)


def with_a_callback(x):
    def body(c, _):
        jax.debug.callback(lambda value: print("called", float(value)), c)
        return c * c, None

    return lax.scan(body, x, None, length=2)[0]


FUNCTIONS = [in_scan, in_loop, in_branch, in_branch_of_a_scan, in_jit, with_a_callback]
WAYS = {
    "grad": lambda lib, f: lib.grad(f)(0.7),
    "value_and_grad": lambda lib, f: lib.value_and_grad(f)(0.7),
    "jvp": lambda lib, f: lib.jvp(f, (0.7,), (1.0,)),
    "vjp": lambda lib, f: lib.vjp(f, 0.7)[1](1.0),
    "jitted": lambda lib, f: jax.jit(lib.grad(f))(0.7),
}


def seen(run, capfd):
    """What a run gives, and the lines that it prints."""
    capfd.readouterr()
    found = run()
    jax.effects_barrier()
    return jax.tree.leaves(found), sorted(capfd.readouterr().out.splitlines())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_prints_are_those_of_jax(f, way, capfd):
    expected, printed = seen(lambda: WAYS[way](jax, f), capfd)
    found, ours = seen(lambda: WAYS[way](fgrad, f), capfd)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert printed and ours == printed


@pytest.mark.parametrize("f", [*FUNCTIONS, in_checkpoint])
def test_further_derivatives(f):
    for way in (
        lambda lib: lib.grad(lib.grad(f))(0.7),
        lambda lib: lib.jit(lib.grad(f))(0.7) if lib is fgrad else jax.jit(jax.grad(f))(0.7),
        lambda lib: lib.linearize(f, 0.7)[1](1.0) if f is not in_checkpoint else jnp.zeros(()),
        lambda lib: jax.vmap(lib.grad(f))(jnp.array([0.7, 0.2])),
    ):
        np.testing.assert_allclose(way(fgrad), way(jax), rtol=1e-4)


def test_a_value_from_python_has_no_derivative():
    def f(x):
        def body(c, _):
            shape = jax.ShapeDtypeStruct((), jnp.float32)
            return jax.experimental.io_callback(lambda v: np.float32(v), shape, c), None

        return lax.scan(body, x, None, length=2)[0]

    with pytest.raises(fgrad.errors.UndefinedDerivativeError, match="scan"):
        fgrad.grad(f)(0.7)


def checked(x):
    checkify.check(x < 2.0, "large: {x}", x=x)
    return jnp.sin(x) + x


CHECKED = {
    "scan": lambda x: lax.scan(lambda c, _: (checked(c), None), x, None, length=2)[0],
    "loop": lambda x: lax.fori_loop(0, 2, lambda i, c: checked(c), x),
    "cond": lambda x: lax.cond(x > 0.0, checked, jnp.cos, x),
    "jit": lambda x: jax.jit(checked)(x),
}


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.jit, jax.jit], ids=["alone", "fgrad.jit", "jax.jit"])
def test_checks(name, wrap):
    """Checks of ``checkify`` hold, also where JAX's gradient of a loop drops them."""
    f = CHECKED[name]
    for x in (0.3, 2.5):
        expected, _ = checkify.checkify(f)(x)
        error, slope = checkify.checkify(wrap(fgrad.grad(f)))(x)
        assert (error.get() is None) == (expected.get() is None) == (x == 0.3)
        assert np.allclose(slope, checkify.checkify(jax.grad(f))(x)[1])
