"""check_grads: right derivatives pass, wrong ones and kinks are named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors
from fgrad.testing import check_grads
from tests.api.compare import every_pytree, total

X = jnp.array([0.5, -1.5, 2.0])

SMOOTH = {
    "scalar": (jnp.sin, (1.0,), 3),
    "array": (lambda x: jnp.tanh(x) * x[::-1], (X,), 2),
    "several": (lambda x, y: {"a": jnp.outer(x, y), "b": y.sum()}, (X, X[:2]), 2),
    "pytree": (total, (every_pytree(),), 2),
    "integers are held": (lambda x, n: (x**n, n + 1), (2.0, 3), 2),
    "complex": (lambda z: jnp.sin(z) * z, (1.0 + 2.0j,), 2),
    "not holomorphic": (lambda z: jnp.abs(z) * jnp.conj(z), (jnp.array([1 + 2j, 0.5 - 1j]),), 2),
    "real to complex": (lambda x: jnp.exp(1j * x), (X,), 2),
    "bfloat16": (lambda x: x**3, (jnp.bfloat16(2.0),), 2),
    "float16": (jnp.sin, (jnp.float16(1.0),), 2),
    "large": (lambda x: x**2, (1e6,), 1),
    "beside a kink": (jax.nn.relu, (0.001,), 1),
    "numpy": (jnp.cos, (np.float32(1.0),), 1),
    "no moving argument": (lambda n: n * 2.0, (3,), 1),
    "constant": (lambda x: jnp.ones(2), (X,), 2),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (jnp.sin(c * a), c), 0.5, x), (X,), 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_right_derivatives_pass(name):
    f, args, order = SMOOTH[name]
    check_grads(f, args, order)


def test_in_double_precision_tightly(x64):
    check_grads(lambda x: jnp.exp(jnp.sin(x)), (np.linspace(0.0, 1.0, 4),), 3, atol=1e-7, rtol=1e-7)
    check_grads(lambda m: jnp.linalg.inv(m), (np.array([[2.0, 1j], [0.5, 3.0]]),), 2)


def wrong(factor=3.0):
    f = fgrad.custom_jvp(lambda p: jnp.sin(p["a"]) * p["b"])
    f.defjvp(lambda p, t: (f(*p), t[0]["a"] * jnp.cos(p[0]["a"]) * p[0]["b"] + factor * t[0]["b"] * jnp.sin(p[0]["a"])))
    return f


POINT = ({"a": X, "b": X + 2},)


def test_wrong_derivatives_are_named():
    with pytest.raises(
        errors.GradientCheckError, match=r"(?s)order 1 in forward mode is wrong at args\[0\]\['b'\]\[1\]"
    ) as e:
        check_grads(wrong(), POINT, 1, modes=("fwd",))
    expected, got = np.sin(-1.5), 3 * np.sin(-1.5)
    assert f"expected: {expected:.3f}" in str(e.value) and f"got:      {got:.3f}" in str(e.value)
    with pytest.raises(
        AssertionError, match=r"(?s)order 1 in reverse mode is wrong at args\[0\]\['b'\]\[\d\].*expected.*got"
    ):
        check_grads(wrong(), POINT, 1, modes=["rev"])
    check_grads(wrong(1.0), POINT, 2)


def test_wrong_in_one_mode_or_order_only():
    f = fgrad.define_rule(lambda x: x**3, vjp=lambda ct, out, x: (ct * x,), jvp=lambda t, out, x: 3 * x**2 * t[0])
    check_grads(f, (2.0,), 1, modes="fwd")
    with pytest.raises(AssertionError, match=r"reverse mode is wrong at args\[0\]"):
        check_grads(f, (2.0,), 1)

    @fgrad.custom_jvp
    def slope(x):
        return 3 * x**2

    slope.defjvp(lambda p, t: (slope(*p), t[0]))
    g = fgrad.custom_jvp(lambda x: x**3)
    g.defjvp(lambda p, t: (g(*p), slope(*p) * t[0]))
    check_grads(g, (2.0,), 1)
    with pytest.raises(AssertionError, match="order 2 in forward mode"):
        check_grads(g, (2.0,), 2)


def test_wrong_complex_derivative():
    f = fgrad.define_rule(lambda z: z**2, vjp=lambda ct, out, z: (2 * jnp.conj(z) * ct,))
    with pytest.raises(AssertionError, match=r"mode is wrong at args\[0\]\[0\]"):
        check_grads(f, (jnp.array([1 + 2j]),), 1)


KINKS = {
    "relu": (
        jax.nn.relu,
        (jnp.array([1.0, 0.0, -1.0]),),
        r"args\[0\]\[1\]: its slope is 0 from the left and 1 from the right",
    ),
    "abs": (jnp.abs, (0.0,), r"args\[0\]: its slope is -1 from the left and 1 from the right"),
    "tie": (lambda p: jnp.maximum(p["x"], 2 * p["y"]), ({"x": 2.0, "y": 1.0},), r"args\[0\]\['x'\]: its slope is 0"),
    "jump": (jnp.floor, (1.0,), r"a kink or a jump of the function at args\[0\]"),
    "complex": (jnp.abs, (0.0j,), r"args\[0\]"),
    "steep": (lambda x: 1000 * jnp.abs(x) + x, (0.0,), r"slope is -999.* from the left and 1001.* from the right"),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_are_named(name):
    f, args, said = KINKS[name]
    with pytest.raises(errors.KinkError, match=said):
        check_grads(f, args, 1)


def test_kink_of_a_derivative():
    f = lambda x: x * jnp.abs(x)  # noqa: E731
    check_grads(f, (0.0,), 1)
    with pytest.raises(errors.KinkError, match=r"kink or a jump of the derivative of order 1 at args\[0\]"):
        check_grads(f, (0.0,), 2)


def test_kinks_in_double_precision(x64):
    with pytest.raises(errors.KinkError, match=r"args\[0\]\[2\]"):
        check_grads(jnp.abs, (np.array([1.0, -2.0, 0.0]),), 1)
    check_grads(lambda x: jnp.exp(20 * x), (1.0,), 1)  # steep and curved, but smooth


def test_many_elements():
    check_grads(lambda x: jnp.sum(x**2), (jnp.ones((40, 40)),), 1)
    f = fgrad.define_rule(lambda x: jnp.sum(x**2), vjp=lambda ct, out, x: (ct * x,))
    with pytest.raises(AssertionError, match="a random direction"):
        check_grads(f, (jnp.ones((40, 40)),), 1)


def test_bad_input():
    with pytest.raises(ValueError, match="made of 'fwd' and 'rev'"):
        check_grads(jnp.sin, (1.0,), 1, modes=("forward",))
    with pytest.raises(TypeError, match=r"use \(x,\)"):
        check_grads(jnp.sin, 1.0, 1)
    with pytest.raises(errors.ArgumentTypeError, match=r"args\[0\]"):
        check_grads(jnp.sin, ("x",), 1)
