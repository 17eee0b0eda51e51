"""The fast lane: same values as JAX, one template per types and statics, open lane where it must."""

import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.lax as flax
import fgrad.nn as fnn
import fgrad.numpy as fnp
import fgrad.random
import fgrad.scipy.special
from fgrad.record.namespaces import is_function
from fgrad.record.recording import Recording
from fgrad.record.templates import apply_pair
from tests.oracle import compiled

X = jnp.array([0.3, 0.7, 1.2, -0.4])

FUNCTIONS = {
    "concatenate": lambda np_: lambda x: np_.sum(np_.concatenate([x, x * 2.0]) ** 2),
    "where": lambda np_: lambda x: np_.sum(np_.where(x > 0.5, x * x, np_.zeros_like(x))),
    "einsum": lambda np_: lambda x: np_.einsum("i,i->", x, np_.cos(x)),
    "methods": lambda np_: lambda x: (x.reshape(2, 2).T @ np_.ones((2, 3))).sum(axis=0).max() + x.mean(),
    "indexing": lambda np_: lambda x: x[1:][::-1][0] * x[-1] + x[np_.array([0, 0, 2])].sum() + x[None, ..., 1][0],
    "at": lambda np_: lambda x: np_.sum(x.at[1].set(3.0) * x.at[0].add(x[2])),
    "kwargs": lambda np_: lambda x: np_.sum(np_.clip(x, min=-0.1, max=1.0) * np_.std(x, ddof=1)),
    "reflected": lambda np_: (
        lambda x: np_.sum(2.0 - x + 3 / (x + 5) + 2**x + (1.0 + x) * np.float32(2) - np.ones(4, np.float32) * x)
    ),
    "pow": lambda np_: lambda x: np_.sum((x + 2.0) ** 3 + (x + 2.0) ** 0.5 + (x + 2.0) ** -2),
    "comparison": lambda np_: lambda x: np_.sum(x * (x > 0.5) + x * (x == x) + x * (x >= 0.1)),
    "mod": lambda np_: lambda x: np_.sum(x % 0.5 + x // 0.5 + abs(x) - (-x) + (+x)),
    "norm": lambda np_: lambda x: np_.linalg.norm(x) + np_.fft.rfft(x).real.sum(),
    "loop": lambda np_: lambda x: sum(x[i] * i for i in range(4)),
    "take": lambda np_: (
        lambda x: np_.take(x, 2) + np_.sum(np_.stack([x, x], axis=1)[:, 0]) + np_.trace(np_.outer(x, x))
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_jax(name):
    fast, plain = FUNCTIONS[name](fnp), FUNCTIONS[name](jnp)
    expected = compiled(jax.value_and_grad(plain))(X)
    for _ in range(3):  # recorded, interpreted from the template, compiled
        found = fgrad.value_and_grad(fast)(X)
        assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(found, expected, strict=True))
    assert np.allclose(
        fgrad.grad(lambda x: fgrad.grad(fast)(x).sum())(X),
        compiled(jax.grad(lambda x: jax.grad(plain)(x).sum()))(X),
        rtol=1e-4,
        atol=1e-5,
    )
    assert np.allclose(
        jax.jit(jax.vmap(fgrad.grad(fast)))(jnp.stack([X, X])), jnp.stack([expected[1]] * 2), rtol=1e-5, atol=1e-6
    )


def test_results_have_jax_types():
    for f in (
        lambda x: x * 2,
        lambda x: x + 1.5,
        lambda x: x > 0,
        lambda x: x @ x,
        lambda x: x**2,
        lambda x: 1 // x,
        lambda x: x.astype(int),
    ):
        for value in (1.0, X, X.astype(jnp.bfloat16), jnp.arange(4), np.float32(2)):
            try:
                expected = jax.eval_shape(f, value)
            except Exception:
                continue
            found = fgrad.eval_shape(f, value)
            assert (found.shape, found.dtype, found.weak_type) == (expected.shape, expected.dtype, expected.weak_type)


@pytest.mark.parametrize(
    "ours, theirs",
    [(fnp, jnp), (flax, jax.lax), (fnn, jax.nn), (fgrad.random, jax.random), (fgrad.scipy.special, jax.scipy.special)],
)
def test_every_public_name_is_there(ours, theirs):
    names = [n for n in dir(theirs) if not n.startswith("_")]
    assert not [n for n in names if not hasattr(ours, n)]
    assert all(
        is_function(getattr(theirs, n)) == (getattr(ours, n) is not getattr(theirs, n))
        for n in names
        if callable(getattr(theirs, n))
    )


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fnp.nonsense  # noqa: B018


def test_on_arrays_it_is_jax():
    assert fnp.sin(X).tolist() == jnp.sin(X).tolist()
    assert isinstance(fnp.sin(np.ones(2)), jax.Array)


@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.grad, fgrad.jit], ids=["alone", "grad", "jit"])
def test_functions_of_the_namespace_are_those_of_jax_as_arguments(wrap):
    """JAX asks which one it gets: if its own, the start may be a Python number, and there is a gradient."""

    def windows(lax):
        return lambda x: (
            lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "VALID").sum()
            + lax.reduce(x, -jnp.inf, computation=lax.max, dimensions=(0,))
        )

    x = jnp.arange(4.0, dtype=jnp.float16)
    theirs = jax.grad(windows(jax.lax)) if wrap is fgrad.grad else windows(jax.lax)
    assert np.array_equal(wrap(windows(fgrad.lax))(x), theirs(x))


def test_shape_errors_are_the_users():
    with pytest.raises(TypeError, match="dot_general|shapes"):
        fgrad.grad(lambda x: fnp.sum(fnp.dot(x, jnp.ones((3, 3)))))(X)


def test_precision_context_is_respected():
    def f(x):
        with jax.default_matmul_precision("highest"):
            return (x @ x.T).sum()

    x = jnp.ones((2, 2))
    text = str(fgrad.make_graph(f)(x))
    assert "HIGHEST" in text
    assert "HIGHEST" not in str(fgrad.make_graph(lambda x: (x @ x.T).sum())(x))


@jax.custom_jvp
def product_and_sum(x, y):
    return x * y, x + y


product_and_sum.defjvps(
    lambda t, _, x, y: (t * y, t),
    lambda t, _, x, y: (t * x, t),
)


@pytest.mark.parametrize("which", [0, 1])
def test_one_output_of_an_operation_with_several(which):
    def chosen(x, y):
        return product_and_sum(x, y)[which]

    def f(x):
        return apply_pair(chosen, x, x * x, sys._getframe()) * 2.0

    value, slope = fgrad.value_and_grad(f)(3.0)
    assert (value, slope) == ((54.0, 54.0) if which == 0 else (24.0, 14.0))


def test_lines_are_the_users_where_a_library_calls_an_operator():
    def f(x):
        hidden = jnp.tanh(x)
        return jax.nn.softmax(hidden)

    for _ in range(2):
        nodes = fgrad.make_graph(f)(jnp.ones(3)).nodes
        assert {node.source.file for node in nodes} == {__file__}
        assert {node.source.text for node in nodes} == {"hidden = jnp.tanh(x)", "return jax.nn.softmax(hidden)"}


def test_lines_inside_a_jitted_function_are_its_own():
    @jax.jit
    def inner(x):
        root = jnp.sqrt(x)
        return jnp.where(x > 0, root, 0.0)

    def f(x):
        first = inner(x)
        return inner(first) + jax.nn.relu(first)

    lines = [node.source.text for node in fgrad.make_graph(f)(jnp.ones(3)).nodes]
    assert lines.count("root = jnp.sqrt(x)") == 2 and set(lines) == {
        "root = jnp.sqrt(x)",
        "return jnp.where(x > 0, root, 0.0)",
        "return inner(first) + jax.nn.relu(first)",
    }


METHODS: dict[str, Callable[[Any], Any]] = {
    "sums": lambda x: x.sum() + x.mean(0).max() + x.var(axis=1).min() + x.std() + x.prod(),
    "shapes": lambda x: (x.reshape(-1) * x.ravel() * x.flatten()).sum() + x.transpose().swapaxes(0, 1).squeeze()[0, 1],
    "elements": lambda x: (x.clip(0.5, 2.0).round(1) + x.astype("float32").conj() + x.cumsum(0)).sum(),
    "places": lambda x: (x.take(x.argmax()) + x.sort(0).diagonal().sum() + x.trace()) * x.dot(x).sum(),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_recorded_from_templates(name, monkeypatch):
    """JAX's own methods take ten times as long, however often they are called."""
    f, x = METHODS[name], jnp.arange(1.0, 5.0).reshape(2, 2)
    expected = fgrad.grad(f)(x)
    np.testing.assert_allclose(expected, jax.grad(f)(x), rtol=1e-5)
    monkeypatch.setattr(Recording, "process_primitive", None)
    np.testing.assert_array_equal(fgrad.grad(f)(x), expected)


BITS = (np.array([True, False]), np.array([1, 2], np.int32), np.array([[1], [6]], np.uint8), np.int8(3), True, 5)


@pytest.mark.parametrize("name", ["and_", "or_", "xor"])
@pytest.mark.parametrize("other", BITS, ids=str)
def test_operators_on_bits(name, other):
    """Booleans and integers of every kind, either of them first."""

    def outcome(jit, x, reflected):
        def function(x):
            same = x ^ (x ^ x)  # traced
            return getattr(operator, name)(*((other, same) if reflected else (same, other)))

        found = jit(function)(x)
        return found.dtype, found.weak_type, found.tolist(), jit(lambda x: ~x)(x).tolist()

    for x in BITS[:3]:
        for reflected in (False, True):
            assert outcome(fgrad.jit, x, reflected) == outcome(jax.jit, x, reflected)


@pytest.mark.parametrize("exponent", [np.int8(2), jnp.int32(2)], ids=["numpy", "jax"])
@pytest.mark.parametrize("power", [fnp.power, operator.pow], ids=["function", "operator"])
def test_a_known_integer_exponent_leaves_the_type_of_the_base(power, exponent):
    x = jnp.array([3, -2], jnp.int16)
    assert fgrad.make_graph(lambda x: power(x, exponent))(x).out_types[0].dtype == jnp.power(x, exponent).dtype


def test_numbers_that_do_not_fit_are_refused_as_by_jax():
    with warnings.catch_warnings(action="ignore"), pytest.raises(TypeError, match="not 'complex'"):
        fgrad.grad(lambda x: jnp.sum(fnp.full_like(x, 1 + 2j)))(X)
    assert fgrad.jvp(lambda x: fnp.full_like(x, 2.5, int), (X,), (X,))[0][0] == 2
