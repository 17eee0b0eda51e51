"""Jacobians and Hessians against JAX's: nesting, shapes, dtypes, chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from tests.api.compare import Pair, every_pytree, same, total

X = jnp.array([0.5, -1.5, 2.0])
BOTH = {"jacfwd": (fgrad.jacfwd, jax.jacfwd), "jacrev": (fgrad.jacrev, jax.jacrev)}
ALL = BOTH | {"hessian": (fgrad.hessian, jax.hessian)}

FUNCTIONS = {
    "array": (lambda x: jnp.outer(jnp.sin(x), x), (X,), 0),
    "scalar": (lambda x: jnp.sum(x**3), (X,), 0),
    "scalar to scalar": (jnp.sin, (1.0,), 0),
    "weak to strong": (lambda x: x**2 * X, (1.0,), 0),
    "tree to tree": (
        lambda p: {"y": p["a"] * p["b"].second, "z": [p["a"].sum()]},
        ({"a": X, "b": Pair(1.0, X + 1)},),
        0,
    ),
    "argnums": (lambda x, y, z: x * y[:, None] ** 2, (X, X[:2], 3.0), (1, 0)),
    "negative": (lambda x, y: jnp.cos(x) * y**3, (X, X), -1),
    "one in a tuple": (lambda x, y: x * x * y, (X, X), (1,)),
    "pytree": (lambda t: (total(t), t["none"]), (every_pytree(),), 0),
    "independent": (lambda x: (jnp.ones(2), x), (X,), 0),
    "half": (lambda x: x * x * x, (jnp.ones(2, jnp.bfloat16),), 0),
    "mixed": (lambda x, y: jnp.sum(x) * y**2, (jnp.ones(2, jnp.float16), X), (0, 1)),
    "scan": (lambda x: jax.lax.scan(lambda c, a: (jnp.sin(c * a), c), 1.0, x), (X,), 0),
    "matrix": (lambda m: jnp.linalg.inv(m), (jnp.array([[2.0, 1.0], [0.5, 3.0]]),), 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("which", ALL)
def test_as_in_jax(which, name):
    f, args, argnums = FUNCTIONS[name]
    ours, theirs = ALL[which]
    expected = jax.jit(theirs(f, argnums))(*args)
    tolerance = 3e-2 if name in ("half", "mixed") else 2e-5
    weak = name != "scan"  # JAX calls what a scan stacks weak
    same(ours(f, argnums)(*args), expected, tolerance, weak)
    same(ours(f, argnums)(*args), expected, tolerance, weak)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["array", "tree to tree", "argnums", "scalar to scalar"])
@pytest.mark.parametrize("which", ALL)
def test_chunks(which, name):
    ours, theirs = ALL[which]
    f, args, argnums = FUNCTIONS[name]
    expected = jax.jit(theirs(f, argnums))(*args)
    for chunk in (1, 4, 100):
        same(jax.jit(ours(f, argnums, chunk_size=chunk))(*args), expected, 2e-5)
    same(ours(f, argnums, chunk_size=2)(*args), expected, 2e-5)


@pytest.mark.parametrize("which", BOTH)
def test_nested_and_composed(which):
    ours, theirs = BOTH[which]
    f = lambda x: jnp.sin(x) * x[::-1]  # noqa: E731
    loss = lambda jacobian: lambda x: jnp.sum(jacobian(x) ** 2)  # noqa: E731
    expected = jax.jit(jax.grad(loss(theirs(f))))(X)
    for chunk in (None, 2):
        mine = ours(f, chunk_size=chunk)
        same(fgrad.grad(loss(mine))(X), expected, 2e-5)
        same(jax.jit(jax.grad(loss(mine)))(X), expected, 2e-5)
    rows = jnp.stack([X, X + 1])
    same(jax.vmap(mine)(rows), jnp.stack([theirs(f)(x) for x in rows]), 2e-5)
    same(fgrad.jvp(mine, (X,), (X,)), jax.jvp(theirs(f), (X,), (X,)), 2e-5)
    for outer in (fgrad.jacfwd, fgrad.jacrev):
        same(outer(mine, chunk_size=2)(X), jax.jit(jax.jacfwd(theirs(f)))(X), 2e-5)


def test_chunks_bound_the_memory():
    t = jnp.ones(300)
    f = lambda x: jnp.cumsum(jnp.sin(jnp.outer(x, t)), axis=1)[:, -1]  # noqa: E731

    def temporary(jacobian, chunk):
        compiled = fgrad.jit(jacobian(f, chunk_size=chunk)).lower(jnp.ones(100)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    for jacobian in (fgrad.jacfwd, fgrad.jacrev):
        assert temporary(jacobian, 5) < temporary(jacobian, None) / 4


def test_aux():
    f = lambda x: (x**2, {"aux": x + 1, "text": "kept"})  # noqa: E731
    for ours, theirs in BOTH.values():
        jacobian, aux = ours(f, has_aux=True)(X)
        same(jacobian, theirs(lambda x: x**2)(X))
        same(aux["aux"], X + 1)
        assert aux["text"] == "kept"
    numbers = lambda x: (jnp.sum(x**3), x + 1)  # noqa: E731
    same(fgrad.hessian(numbers, has_aux=True)(X), jax.hessian(numbers, has_aux=True)(X))


def test_keyword_arguments():
    f = lambda x, *, k: k * x**2  # noqa: E731
    for ours, theirs in ALL.values():
        same(ours(f)(X, k=3.0), theirs(f)(X, k=3.0))


def test_holomorphic():
    f = lambda z: jnp.exp(z) * z[::-1]  # noqa: E731
    z = jnp.array([1 + 1j, 0.5 - 2j])
    for ours, theirs in ALL.values():
        same(ours(f, holomorphic=True)(z), theirs(f, holomorphic=True)(z))
        with pytest.raises(TypeError, match=r"complex inputs, but args\[0\] has dtype float32"):
            ours(f, holomorphic=True)(X)
    for ours, _ in BOTH.values():
        with pytest.raises(TypeError, match="complex outputs, but output has dtype float32"):
            ours(lambda z: jnp.abs(z), holomorphic=True)(z)


def test_complex_without_holomorphic():
    z = jnp.array([1 + 1j, 0.5 - 2j])
    same(fgrad.jacrev(lambda z: jnp.abs(z))(z), jax.jacrev(lambda z: jnp.abs(z))(z))
    same(fgrad.jacfwd(lambda x: jnp.exp(1j * x))(X), jax.jacfwd(lambda x: jnp.exp(1j * x))(X))
    with pytest.raises(TypeError, match=r"real inputs, but args\[0\] has dtype complex64"):
        fgrad.jacfwd(lambda z: z)(z)
    with pytest.raises(TypeError, match=r"real outputs, but output\['a'\] has dtype complex64"):
        fgrad.jacrev(lambda z: {"a": z})(z)


def test_integers():
    f = lambda n, x: x * n[:, None]  # noqa: E731
    args = (jnp.arange(2), X)
    same(fgrad.jacrev(f, (0, 1), allow_int=True)(*args), jax.jacrev(f, (0, 1), allow_int=True)(*args))
    same(fgrad.jacrev(lambda n: n * X, allow_int=True)(3), jax.jacrev(lambda n: n * X, allow_int=True)(3))
    for ours in (fgrad.jacfwd, fgrad.jacrev, fgrad.hessian):
        with pytest.raises(TypeError, match=r"args\[0\] has type int32"):
            ours(f)(*args)
    with pytest.raises(TypeError, match="floating-point outputs, but output has dtype int32"):
        fgrad.jacrev(lambda x: jnp.argmax(x))(X)
    order = lambda x: (x, jnp.argsort(x))  # noqa: E731
    same(fgrad.jacfwd(order)(X), jax.jacfwd(order)(X))
    same(fgrad.jacfwd(lambda x: x > 0)(X), jnp.zeros((3, 3), bool))  # where JAX fails


def test_empty():
    for ours in (fgrad.jacfwd, fgrad.jacrev):
        assert ours(lambda x: x[:2])(jnp.zeros((0,))).shape == (0, 0)
        assert ours(lambda x: jnp.ones(2) * x.sum())(jnp.zeros((0,))).shape == (2, 0)
        assert ours(lambda x: x[:0])(X).shape == (0, 3)


def test_bad_input():
    for ours in (fgrad.jacfwd, fgrad.jacrev, fgrad.hessian):
        for bad in (0, -1, 1.5, "2"):
            with pytest.raises(ValueError, match="chunk_size"):
                ours(jnp.sin, chunk_size=bad)
        with pytest.raises(ValueError, match="positional argument"):
            ours(jnp.sin, 1)(X)
        with pytest.raises(TypeError, match="takes a function"):
            ours(1)
        with pytest.raises(TypeError, match=r"args\[0\] is not an array"):
            ours(jnp.sin)("x")


# -- hvp --------------------------------------------------------------------------------------------------------------


def cookbook(f, primals, tangents, argnums=0):
    return jax.jvp(jax.grad(f, argnums), primals, tangents)[1]


def test_hvp():
    f = lambda x: jnp.sum(x**3 * x[::-1])  # noqa: E731
    same(fgrad.hvp(f, (X,), (X + 1,)), cookbook(f, (X,), (X + 1,)), 2e-5)
    assert np.allclose(fgrad.hvp(f, (X,), (X + 1,)), fgrad.hessian(f)(X) @ (X + 1), rtol=1e-4)
    tree = every_pytree()
    same(fgrad.hvp(total, (tree,), (tree,)), cookbook(total, (tree,), (tree,)), 2e-5)


def test_hvp_of_several_arguments():
    f = lambda x, y: jnp.sum(x**2 * y) * y[0]  # noqa: E731
    primals, tangents = (X, X + 1), (X - 1, X * 2)
    for argnums in (0, 1, (0, 1)):
        same(fgrad.hvp(f, primals, tangents, argnums), cookbook(f, primals, tangents, argnums), 2e-5)


def test_hvp_extras():
    f = lambda x: jnp.sum(x**3)  # noqa: E731
    value, gradient, product = fgrad.hvp(f, (X,), (X,), with_value_and_grad=True)
    same((value, gradient, product), (f(X), 3 * X**2, 6 * X**2))
    product, aux = fgrad.hvp(lambda x: (f(x), x + 1), (X,), (X,), has_aux=True)
    same((product, aux), (6 * X**2, X + 1))
    found = fgrad.hvp(lambda x: (f(x), x + 1), (X,), (X,), has_aux=True, with_value_and_grad=True)
    same(found, (f(X), 3 * X**2, 6 * X**2, X + 1))
    same(jax.jit(lambda x: fgrad.hvp(f, (x,), (x,)))(X), 6 * X**2)
    with pytest.raises(TypeError, match="tuple or list"):
        fgrad.hvp(f, X, X)
