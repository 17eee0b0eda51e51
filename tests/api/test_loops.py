"""Loops with a bound against the same loops unrolled in Python, differentiated by JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors


def halved(x, bound):
    """Halve until below one; the number of steps depends on the numbers."""
    return fgrad.bounded_while(
        lambda s: s["x"] > 1.0,
        lambda s: {"x": s["x"] * 0.5 * (1 + 0.01 * jnp.sin(s["y"])), "y": s["y"] + s["x"]},
        {"x": x, "y": 0.5},
        max_steps=bound,
    )


def unrolled(x, steps):
    s = {"x": x, "y": jnp.float32(0.5)}
    for _ in range(steps):
        s = {"x": s["x"] * 0.5 * (1 + 0.01 * jnp.sin(s["y"])), "y": s["y"] + s["x"]}
    return s


def total(s):
    return s["x"] * 3.0 + s["y"]


@pytest.mark.parametrize(("start", "steps"), [(0.5, 0), (1.5, 1), (20.0, 5), (3e5, 19)])
@pytest.mark.parametrize("bound", [20, 16, 300])
def test_as_unrolled(start, steps, bound):
    if steps > bound:
        return
    x = jnp.float32(start)
    value, slope = jax.value_and_grad(lambda x: total(unrolled(x, steps)))(x)
    for transform in (fgrad.value_and_grad, lambda f: fgrad.jit(fgrad.value_and_grad(f))):
        found, gradient = transform(lambda x: total(halved(x, bound)))(x)
        np.testing.assert_allclose(found, value, 1e-5)
        np.testing.assert_allclose(gradient, slope, 1e-5)


def test_second_order_forward_mode_and_vmap():
    x = jnp.float32(20.0)
    one, other = lambda x: total(halved(x, 20)), lambda x: total(unrolled(x, 5))
    np.testing.assert_allclose(fgrad.grad(fgrad.grad(one))(x), jax.grad(jax.grad(other))(x), 1e-4)
    np.testing.assert_allclose(fgrad.jvp(one, (x,), (x,))[1], jax.jvp(other, (x,), (x,))[1], 1e-5)
    many = jnp.array([1.5, 20.0], jnp.float32)
    wanted = [jax.grad(lambda x, n=n: total(unrolled(x, n)))(x) for x, n in zip(many, (1, 5), strict=True)]
    np.testing.assert_allclose(jax.vmap(fgrad.grad(one))(many), wanted, 1e-5)


def test_closed_over_values():
    def root(a):
        return fgrad.bounded_while(lambda x: abs(x * x - a) > 1e-4, lambda x: (x + a / x) / 2, 1.0, max_steps=40)

    np.testing.assert_allclose(fgrad.jit(fgrad.grad(root))(4.0), 0.25, 1e-3)


def test_the_bound_is_hit():
    with pytest.raises(errors.LoopBoundError, match="after 3 steps"):
        halved(20.0, 3)
    with pytest.raises(errors.LoopBoundError, match="after 3 steps"):
        fgrad.grad(lambda x: total(halved(x, 3)))(20.0)
    found = fgrad.jit(lambda x: halved(x, 3))(20.0)
    assert np.isnan(found["x"]) and np.isnan(found["y"])
    assert int(fgrad.bounded_while(lambda n: n < 3, lambda n: n + 1, 0, max_steps=3)) == 3


def test_wrong_arguments():
    with pytest.raises(ValueError, match="max_steps"):
        fgrad.bounded_while(lambda x: x > 0, lambda x: x - 1, 1.0, max_steps=0)
    with pytest.raises(errors.ArgumentTypeError, match=r"bounded_while: init\['x'\] is not an array"):
        fgrad.bounded_while(lambda x: True, lambda x: x, {"x": "a"}, max_steps=4)
    with pytest.raises(TypeError, match="cond"):
        fgrad.bounded_while(None, lambda x: x - 1, 1.0, max_steps=4)
    with pytest.raises(errors.MismatchError, match=r"result of body, \[0\], has"):
        fgrad.bounded_while(lambda x: x[0] > 0, lambda x: (jnp.ones(2), x[1]), (1.0, 1.0), max_steps=4)
    with pytest.raises(errors.MismatchError):
        fgrad.bounded_while(lambda x: x[0] > 0, lambda x: [x[0], x[1]], (1.0, 1.0), max_steps=4)
