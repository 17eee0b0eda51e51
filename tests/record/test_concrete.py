"""Un-jitted transformations keep values concrete on demand; staged ones say what to do instead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp


def _collatz_like(x):
    steps = 0
    while x > 1.5:
        x = x / 2.0 if steps % 2 == 0 else jnp.sqrt(x) * 1.1
        steps += 1
    return x * steps


CASES = {
    "if": lambda x: x * x if x > 0 else -x,
    "while": _collatz_like,
    "for over rows": lambda x: sum(r * (i + 1) for i, r in enumerate(jnp.stack([x, x * x, jnp.sin(x)]))),
    "int": lambda x: x ** int(x),
    "index": lambda x: jnp.arange(10.0)[int(x)] * x,
    "item": lambda x: x * x.item(),
    "assert": lambda x: [x * 3.0][0 if bool(jnp.all(x > -100)) else 1],
    "max": lambda x: max(x, x * 0.5, jnp.float32(0.1)),
    "sorted": lambda x: sorted([x * 2.0, x, x * 3.0], key=lambda y: y.item())[1] * x,
    "in": lambda x: x * 2.0 if x in [x] else x,
}


#: what JAX refuses even outside jit; here the number is known.  Value and gradient.
BEYOND_JAX = {
    "item": lambda x: (x * x, x),
    "sorted": lambda x: (2 * x * x, 4 * x),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at", [3.7, 41.0])
def test_as_under_jax_grad(name, at):
    f = CASES[name]
    ours = fgrad.value_and_grad(f)(at)
    if name in BEYOND_JAX:
        assert np.allclose(ours, BEYOND_JAX[name](at), rtol=1e-6)
        return
    assert np.allclose(ours, jax.value_and_grad(f)(at), rtol=1e-6)


def test_second_order_through_control_flow():
    f = CASES["while"]
    assert np.allclose(fgrad.grad(fgrad.grad(f))(41.0), jax.grad(jax.grad(f))(41.0), rtol=1e-5)


def test_fast_lane_control_flow():
    def f(x):
        while fnp.sum(x) < 100.0:
            x = fnp.multiply(x, x) + 0.5
        return fnp.sum(x)

    x = jnp.array([1.0, 2.0])
    assert np.allclose(fgrad.grad(f)(x), jax.grad(f)(x), rtol=1e-5)


def test_printing_shows_the_number(capsys):
    def f(x):
        print(f"{x:.2f}", x)
        return x * x

    fgrad.grad(f)(3.0)
    assert capsys.readouterr().out == "3.00 Traced<float32[]>(3.0)\n"


@pytest.mark.parametrize(
    "ask",
    [bool, float, int, np.asarray, lambda x: x.item(), lambda x: f"{x:.1f}", lambda x: range(10)[x]],
    ids=["bool", "float", "int", "asarray", "item", "format", "index"],
)
@pytest.mark.parametrize(
    "stage",
    [
        lambda f: fgrad.jit(f)(1.0),
        lambda f: fgrad.jit(fgrad.grad(f))(1.0),
        lambda f: jax.jit(fgrad.grad(f))(1.0),
        lambda f: fgrad.make_graph(f)(1.0),
        lambda f: jax.vmap(fgrad.grad(f))(jnp.ones(2)),
    ],
    ids=["jit", "jit-grad", "jax.jit-grad", "make_graph", "vmap-grad"],
)
def test_staged_code_names_the_line(ask, stage):
    def f(x):
        y = jnp.sin(x)
        ask(y)
        return y

    with pytest.raises(fgrad.errors.NotConcreteError) as info:
        stage(f)
    assert "test_concrete.py" in str(info.value)
    assert "Ways out: " in str(info.value)
    assert isinstance(info.value, jax.errors.ConcretizationTypeError | TypeError)
