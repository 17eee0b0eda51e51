"""Forward mode, linearisation and transposition against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import ad

import fgrad
from fgrad import errors
from tests.api.compare import every_pytree, same, total

X = jnp.array([0.5, -1.5, 2.0])
FLOAT0 = jax.dtypes.float0


@jax.custom_jvp
def doubled(x):
    return jnp.sin(x)


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * jnp.cos(primals[0]) * tangents[0]))

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
    "custom_jvp, weak": (doubled, (3.0,), (1.0,)),
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
        same((out, push(*tangents)), jax.jvp(f, primals, tangents), weak=name != "weak, strong tangent")
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
        ([X], (X,), TypeError, r"structure of tangents.*expected.*got"),
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


N = jnp.array([3, -1, 2, 7])
SCALAR = jnp.int32(5)

INTEGER = {
    "scale": (lambda x: 2 * x, (jnp.int32(3),), SCALAR),
    "weak": (lambda x: 2 * x, (3,), 5),
    "numpy": (lambda x: 2 * x, (np.int32(3),), np.int32(5)),
    "overflow": (lambda x: 3 * x, (jnp.int8(3),), jnp.int8(100)),
    "unsigned": (lambda x: x - 2 * x, (jnp.uint8(3),), jnp.uint8(100)),
    "several uses": (lambda x: (x, x - x[::-1]), (N,), (N, N + 1)),
    "several": (lambda x, y: {"r": x[:2] - 2 * y}, (N, N[:2]), {"r": N[1:3]}),
    "sum": (lambda x: x.sum(), (N,), SCALAR),
    "cumsum": (jnp.cumsum, (N,), N),
    "gather": (lambda x: x[jnp.array([0, 0, 2])], (N,), N[:3]),
    "scatter": (lambda x: jnp.zeros(5, jnp.int32).at[:4].add(x), (N,), jnp.arange(5)),
    "where": (lambda x: jnp.where(N > 1, x, 0), (N,), N),
    "pad": (lambda x: jnp.pad(x, 1), (N,), jnp.arange(6)),
    "jit": (jax.jit(lambda x: -x), (N,), N),
    "div": (lambda x: jax.lax.div(x, 2), (jnp.int32(3),), SCALAR),
    "affine": (lambda x: x + 1, (N,), N),
    "cond": (lambda x: jax.lax.cond(N[0] > 2, lambda x: 2 * x, lambda x: x, x), (SCALAR,), SCALAR),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (2 * c + a, 3 * a), jnp.int32(0), x), (N,), (SCALAR, N)),
    "fori": (lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2, x), (SCALAR,), SCALAR),
    "custom": (fgrad.define_rule(lambda x: 2 * x, jvp=lambda t, out, x: t[0]), (N,), N),
}


@pytest.mark.parametrize("name", INTEGER)
def test_linear_transpose_of_integers_is_jax_linear_transpose(name):
    f, primals, ct = INTEGER[name]
    back = fgrad.linear_transpose(f, *primals)
    same(back(ct), jax.linear_transpose(f, *primals)(ct), weak=name != "weak")
    same(jax.jit(back)(ct), jax.linear_transpose(f, *primals)(ct), weak=name != "weak")


@fgrad.custom_vjp
def doubled(x):
    return 2 * x


doubled.defvjp(lambda x: (2 * x, None), lambda _, ct: (ct,))

#: where jax.linear_transpose of integers fails, or gives ``float0``
BEYOND_JAX = {
    "matrix": (lambda x: jnp.arange(12).reshape(3, 4) @ x, N),
    "int8 matrix": (lambda x: jnp.arange(12, dtype=jnp.int8).reshape(3, 4) @ x, N.astype(jnp.int8)),
    "dynamic slice": (lambda x: jax.lax.dynamic_slice(x, (1,), (2,)), N),
    "scan over others": (lambda x: jax.lax.scan(lambda c, a: (2 * c, a * c), x[0], N)[1], N),
    "scan from a number": (lambda x: jax.lax.scan(lambda c, a: (2 * c + a, c), 0, x)[1], N),
    "remat": (jax.checkpoint(lambda x: 2 * x), N),
    "custom_vjp": (doubled, N),
    "power": (lambda x: jax.lax.integer_pow(x, 1), N),
    "constant": (lambda x: jnp.zeros(2, jnp.int32), N),
    "part": (lambda x: jnp.split(x, 2)[1], N),
    "wider": (lambda x: 3 * x.astype(jnp.int32), N.astype(jnp.int8)),
}


@pytest.mark.parametrize("name", BEYOND_JAX)
def test_linear_transpose_of_integers_is_the_transposed_matrix(name):
    f, x = BEYOND_JAX[name]
    matrix = np.stack([np.asarray(f(row)) for row in np.eye(4, dtype=x.dtype)])
    ct = jnp.arange(1, 1 + matrix.shape[1], dtype=matrix.dtype)
    (found,) = fgrad.linear_transpose(f, x)(ct)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, (matrix @ np.asarray(ct)).astype(x.dtype))


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: x * x, "mul"),
        (lambda x: x & 1, "and"),
        (lambda x: x << 1, "shift_left"),
        (lambda x: x.max(), "reduce_max"),
        (lambda x: jnp.sort(x), "sort"),
        (lambda x: jax.lax.rem(x, 2), "rem"),
        (lambda x: jnp.where(x > 0, 1, 2), "select_n"),
        (lambda x: N[x], "gather|select_n"),
        (lambda x: jax.lax.dynamic_slice(N, x[:1], (2,)), "dynamic_slice"),
        (lambda x: (2 * x.astype(jnp.float32)).astype(jnp.int32), "convert_element_type"),
        (jax.lax.stop_gradient, "stop_gradient"),
    ],
)
def test_transpose_refuses_what_is_not_linear_over_the_integers(f, name):
    with pytest.raises(errors.NotLinearError, match=name):
        fgrad.linear_transpose(f, N)


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (jnp.ceil, errors.NotLinearError),
        (lambda x: x + jax.lax.stop_gradient(x), errors.NotLinearError),
        (
            lambda x: x + jax.lax.while_loop(lambda c: jnp.sum(c) < x[0], lambda c: c + 1, jnp.zeros(3)),
            errors.ReverseWhileError,
        ),
        (jnp.sign, errors.NotLinearError),
        (lambda x: jax.lax.nextafter(x, 2 * X), errors.NotLinearError),
        (lambda x: jax.lax.rem(x, 2 * X), errors.NotLinearError),
        (lambda x: jax.lax.bitcast_convert_type(x, jnp.int32).astype(jnp.float32), errors.NotLinearError),
        (lambda x: jnp.arange(3.0)[x.astype(jnp.int32)], errors.NotLinearError),
        (jax.jit(lambda x: (x > 0) * 1.0), errors.NotLinearError),
        (lambda x: jax.lax.cond(True, jnp.ceil, jnp.negative, x), errors.NotLinearError),
        (lambda x: jax.lax.scan(lambda c, y: (jnp.sign(c), y), x, X)[0], errors.NotLinearError),
        (jax.checkpoint(jnp.round), errors.NotLinearError),
    ],
    ids=[
        "ceil", "stop_gradient", "while", "sign", "nextafter", "rem", "bits", "index", "comparison", "branch", "loop",
        "block",
    ],
)  # fmt: skip
def test_transpose_refuses_what_has_a_slope_of_zero(f, error, monkeypatch):
    """Depending on an input without being linear in it is no reason for a transpose of zero."""
    # lineax, where it has been imported, gives JAX's stop_gradient a transpose
    monkeypatch.delitem(ad.primitive_transposes, jax.lax.stop_gradient_p, raising=False)
    with pytest.raises(error):
        fgrad.linear_transpose(f, X)
    with pytest.raises((NotImplementedError, ValueError, TypeError, AssertionError)):
        jax.linear_transpose(f, X)(X)


@pytest.mark.parametrize(
    ("f", "x", "said"),
    [
        (lambda x: x.astype(jnp.float32), N, r"primals\[0\] has type int32"),
        (lambda x: x.astype(jnp.int32), X, r"output has type int32"),
        (lambda x: x > 0, N, r"primals\[0\] has type int32.*not all"),
        (lambda x: x, N > 0, r"primals\[0\] has type bool"),
    ],
)
def test_transpose_refuses_mixed_types_as_jax(f, x, said):
    with pytest.raises(TypeError, match=said):
        fgrad.linear_transpose(f, x)
    with pytest.raises(TypeError):
        jax.linear_transpose(f, x)


def test_transpose_of_integers_takes_integers():
    back, theirs = fgrad.linear_transpose(lambda x: 2 * x, SCALAR), jax.linear_transpose(lambda x: 2 * x, SCALAR)
    for ct in (5.0, jnp.int16(5), np.zeros((), FLOAT0), N):
        with pytest.raises(errors.MismatchError, match=r"expected: int32\[\]"):
            back(ct)
        with pytest.raises(TypeError):
            theirs(ct)


def test_transpose_of_integers_leaves_derivatives_alone():
    """What is kept with an operation for integers is not taken for the derivative of another of the same type."""
    f = lambda x, n: jnp.sum(x * (2 * n).astype(x.dtype))  # noqa: E731
    fgrad.linear_transpose(lambda n: 2 * n, N)(N)
    zeros = np.zeros(4, FLOAT0)
    same(fgrad.jvp(f, (X[0], N), (X[1], zeros)), jax.jvp(f, (X[0], N), (X[1], zeros)))
    same(fgrad.grad(f)(X[0], N), jax.grad(f)(X[0], N))


def test_transpose_takes_types():
    f = lambda x: x @ jnp.ones((3, 2))  # noqa: E731
    spec = jax.ShapeDtypeStruct((3,), jnp.float32)
    same(fgrad.linear_transpose(f, spec)(jnp.ones(2)), jax.linear_transpose(f, spec)(jnp.ones(2)))


def test_transpose_closing_over_traced_values():
    def f(d, transpose):
        return d(lambda a: transpose(lambda x: jnp.sum(a * x), X)(1.0)[0].sum())(X)

    same(f(fgrad.grad, fgrad.linear_transpose), f(jax.grad, jax.linear_transpose))


def test_a_solve_without_transpose_solve_has_forward_mode_alone():
    a = jnp.array([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 4.0]])
    f = lambda b: jax.lax.custom_linear_solve(lambda x: a @ x, b, lambda mv, b: jnp.linalg.solve(a, b))  # noqa: E731
    same(fgrad.jacfwd(f)(X), jax.jacfwd(f)(X))
    for library in (jax, fgrad):
        with pytest.raises(TypeError, match="transpose_solve"):
            library.grad(lambda b: f(b).sum())(X)


def test_transpose_refuses():
    for f, name in ((jnp.sin, "sin"), (lambda x: x * x, "mul|integer_pow|square"), (jnp.abs, "abs|sign|mul")):
        with pytest.raises(errors.NotLinearError, match=name):
            fgrad.linear_transpose(f, X)
    with pytest.raises(TypeError, match=r"primals\[0\]\['n'\] has type int32"):
        fgrad.linear_transpose(lambda t: t["x"], {"x": X, "n": jnp.arange(3)})
    with pytest.raises(TypeError, match="output has type bool"):
        fgrad.linear_transpose(lambda x: x > 0, X)
    with pytest.raises(errors.ArgumentTypeError, match=r"primals\[0\] is not an array"):
        fgrad.linear_transpose(lambda x: x, "text")
    back = fgrad.linear_transpose(lambda x: 2 * x, X)
    with pytest.raises(errors.MismatchError, match=r"expected: float32\[3\]"):
        back(X[:2])
    with pytest.raises(TypeError, match="structure of the cotangent"):
        back((X, X))
