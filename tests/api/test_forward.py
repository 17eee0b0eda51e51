"""Forward mode, linearisation and transposition against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors
from tests.api.compare import every_pytree, same, total

X = jnp.array([0.5, -1.5, 2.0])
FLOAT0 = jax.dtypes.float0

CASES = {
    "weak": (jnp.sin, (1.0,), (1.0,)),
    "weak, strong tangent": (jnp.sin, (1.0,), (jnp.float32(1.0),)),
    "strong": (lambda x: x * jnp.float32(2), (1.0,), (1.0,)),
    "constant": (lambda x: (jnp.ones(3), jnp.arange(2)), (1.0,), (1.0,)),
    "integers": (lambda x, n: (x * n, n + 1), (X, jnp.arange(3)), (X, np.zeros(3, FLOAT0))),
    "several": (lambda x, y: {"p": jnp.outer(x, y), "q": y.sum()}, (X, X[:2]), (X + 1, X[:2] - 1)),
    "complex": (lambda z: jnp.exp(z) * jnp.conj(z), (1.0 + 1.0j,), (0.5 - 2.0j,)),
    "half": (lambda x: x * x, (jnp.ones(2, jnp.bfloat16),), (jnp.ones(2, jnp.bfloat16),)),
    "tree": (total, (every_pytree(),), (every_pytree(),)),
    "passed through": (lambda x, y: (y, x, x), (X, 2.0), (X, 1.0)),
    "numpy": (jnp.cos, (np.ones(2, np.float32),), (np.ones(2, np.float32),)),
    "while": (
        lambda x: jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * x, c[1] + 1), (x, 0)), (2.0,), (1.0,),
    ),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (c * a, c + a), x[0], x), (X,), (X + 1,)),
    "cond": (lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), (X,), (X + 1,)),
    "custom_jvp": (jax.nn.relu, (X,), (X,)),
    "remat": (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), (X,), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_jvp_is_jax_jvp(name):
    f, primals, tangents = CASES[name]
    for _ in range(3):  # interpreted at first, compiled later
        same(fgrad.jvp(f, primals, tangents), jax.jvp(f, primals, tangents))
    same(fgrad.jvp(f, list(primals), list(tangents)), jax.jvp(f, primals, tangents))


@pytest.mark.parametrize("name", CASES)
def test_linearize_is_jax_linearize(name):
    f, primals, tangents = CASES[name]
    out, push = fgrad.linearize(f, *primals)
    for _ in range(2):
        same((out, push(*tangents)), jax.jvp(f, primals, tangents))
    if name != "weak, strong tangent":
        expected, jax_push = jax.linearize(f, *primals)
        same((out, push(*tangents)), (expected, jax_push(*tangents)))


@pytest.mark.parametrize("name", ["several", "tree", "scan", "cond", "while"])
def test_under_jit(name):
    f, primals, tangents = CASES[name]
    expected = jax.jvp(f, primals, tangents)
    same(jax.jit(lambda p, t: fgrad.jvp(f, p, t))(primals, tangents), expected)
    same(jax.jit(lambda p, t: fgrad.linearize(f, *p)[1](*t))(primals, tangents), expected[1])


def test_aux():
    f = lambda x: (x * 2, {"aux": x + 1, "text": "kept"})  # noqa: E731
    out, tangent, aux = fgrad.jvp(f, (X,), (X,), has_aux=True)
    same((out, tangent, aux["aux"]), (X * 2, X * 2, X + 1))
    assert aux["text"] == "kept"
    out, push, aux = fgrad.linearize(f, X, has_aux=True)
    same((out, push(X), aux["aux"]), (X * 2, X * 2, X + 1))


def test_linear_function_crosses_jit_and_maps():
    out, push = jax.jit(lambda x: fgrad.linearize(jnp.sin, x))(X)
    assert np.allclose(push(jnp.ones(3)), jnp.cos(X))
    assert np.allclose(jax.vmap(push)(jnp.eye(3)), jnp.diag(jnp.cos(X)))
    assert np.allclose(fgrad.grad(lambda t: push(t).sum())(X), jnp.cos(X))


def test_linearize_computes_the_value_once():
    calls = []

    def f(x):
        calls.append(1)
        return jnp.sin(x)

    _, push = fgrad.linearize(f, X)
    push(X)
    push(X)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "said"),
    [
        (X, (X,), TypeError, r"primals must be a tuple or list"),
        ((X,), X, TypeError, r"tangents must be a tuple or list"),
        ((X,), (X, X), TypeError, r"structure of tangents.*expected.*got"),
        (({"a": X},), ({"b": X},), TypeError, r"structure of tangents"),
        (({"a": X},), ({"a": X[:2]},), ValueError, r"tangents\[0\]\['a'\].*expected: float32\[3\].*got: *float32\[2\]"),
        ((X,), (jnp.arange(3),), TypeError, r"tangents\[0\].*expected: float32\[3\].*got: *int32\[3\]"),
        ((jnp.arange(3),), (X,), TypeError, r"expected: float0\[3\]"),
        (("x",), (X,), TypeError, r"primals\[0\] is not an array"),
        ((X,), ("x",), TypeError, r"tangents\[0\] is not an array"),
    ],
)
def test_wrong_tangents(primals, tangents, error, said):
    with pytest.raises(error, match="(?s)" + said):
        fgrad.jvp(lambda x: x, primals, tangents)


def test_wrong_tangents_of_linearize():
    _, push = fgrad.linearize(jnp.sin, X)
    with pytest.raises(errors.MismatchError, match=r"tangents\[0\]"):
        push(X[:2])
    with pytest.raises(TypeError, match="structure of tangents"):
        push(X, X)
    with pytest.raises(TypeError, match="takes a function"):
        fgrad.linearize(3, X)


# -- linear_transpose -------------------------------------------------------------------------------------------------

LINEAR = {
    "scale": (lambda x: 3 * x, (X,), X),
    "weak": (lambda x: 2 * x, (1.0,), 1.0),
    "several": (lambda x, y: x[:2] - 2 * y, (X, X[:2]), X[:2]),
    "matrix": (lambda x: jnp.arange(6.0).reshape(2, 3) @ x, (X,), X[:2]),
    "tree": (lambda t: {"r": t["a"][::-1], "s": t["a"].sum() + t["b"]}, ({"a": X, "b": 1.0},), {"r": X, "s": 2.0}),
    "unused": (lambda x, y: x * 2, (X, X), X),
    "complex": (lambda z: (1 + 2j) * z, (1.0 + 1.0j,), 2.0 - 1.0j),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (c + a, c), jnp.zeros(()), x)[1], (X,), X),
    "cumsum": (jnp.cumsum, (X,), X),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_transpose_is_jax_linear_transpose(name):
    f, primals, ct = LINEAR[name]
    back = fgrad.linear_transpose(f, *primals)
    same(back(ct), jax.linear_transpose(f, *primals)(ct), weak=name != "weak")
    same(jax.jit(back)(ct), jax.linear_transpose(f, *primals)(ct), weak=name != "weak")


def test_transpose_takes_types():
    f = lambda x: x @ jnp.ones((3, 2))  # noqa: E731
    spec = jax.ShapeDtypeStruct((3,), jnp.float32)
    same(fgrad.linear_transpose(f, spec)(jnp.ones(2)), jax.linear_transpose(f, spec)(jnp.ones(2)))


def test_transpose_closing_over_traced_values():
    def f(d, transpose):
        return d(lambda a: transpose(lambda x: jnp.sum(a * x), X)(1.0)[0].sum())(X)

    same(f(fgrad.grad, fgrad.linear_transpose), f(jax.grad, jax.linear_transpose))


def test_transpose_refuses():
    for f, name in ((jnp.sin, "sin"), (lambda x: x * x, "mul|integer_pow|square"), (jnp.abs, "abs|sign|mul")):
        with pytest.raises(errors.NotLinearError, match=name):
            fgrad.linear_transpose(f, X)
    with pytest.raises(TypeError, match=r"primals\[0\]\['n'\] has type int32"):
        fgrad.linear_transpose(lambda t: t["n"], {"n": jnp.arange(3)})
    with pytest.raises(TypeError, match="output has type bool"):
        fgrad.linear_transpose(lambda x: x > 0, X)
    with pytest.raises(errors.ArgumentTypeError, match=r"primals\[0\] is not an array"):
        fgrad.linear_transpose(lambda x: x, "text")
    back = fgrad.linear_transpose(lambda x: 2 * x, X)
    with pytest.raises(errors.MismatchError, match=r"expected: float32\[3\]"):
        back(X[:2])
    with pytest.raises(TypeError, match="structure of the cotangent"):
        back((X, X))
