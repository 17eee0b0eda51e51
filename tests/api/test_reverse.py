"""Reverse mode against JAX's, and the messages for bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors
from tests.api.compare import Custom, Pair, Params, every_pytree, same, total

pytestmark = pytest.mark.fast

X = jnp.array([0.5, -1.5, 2.0])
FLOAT0 = jax.dtypes.float0


# -- grad and value_and_grad ------------------------------------------------------------------------------------------

SCALAR = {
    "polynomial": (lambda x: jnp.sum(x**3 - 2 * x), (X,)),
    "weak": (lambda x: jnp.sin(x) * x, (1.5,)),
    "constant": (lambda x: 2.0, (1.5,)),
    "strong of weak": (lambda x: jnp.sum(x * X), (1.5,)),
    "half": (lambda x: jnp.sum(jnp.exp(x)), (jnp.ones(3, jnp.bfloat16),)),
    "mixed": (lambda x, y: jnp.sum(x * y), (jnp.ones(2, jnp.float16), X[:2])),
    "numpy": (lambda x: jnp.sum(x * x), (np.arange(3, dtype=np.float32),)),
    "numpy scalar": (lambda x: x * x, (np.float32(3.0),)),
    "real of complex": (lambda z: jnp.abs(z) ** 2 + jnp.real(z), (1.0 + 2.0j,)),
    "complex array": (lambda z: jnp.sum(jnp.abs(z * z)), (jnp.array([1 + 1j, 2 - 1j]),)),
    "pytree": (total, (every_pytree(),)),
    "empty array": (lambda x: jnp.sum(x), (jnp.zeros((0, 3)),)),
    "no leaves": (lambda t, x: x, ((), 1.0)),
}


@pytest.mark.parametrize("name", SCALAR)
def test_grad_is_jax_grad(name):
    f, args = SCALAR[name]
    # JAX's own rule for complex abs happens to lose the weak type
    options = {"tolerance": 2e-2 if name in ("half", "mixed") else 1e-5, "weak": name != "real of complex"}
    same(fgrad.grad(f)(*args), jax.grad(f)(*args), **options)
    same(fgrad.value_and_grad(f)(*args), jax.value_and_grad(f)(*args), **options)
    same(jax.jit(fgrad.grad(f))(*args), jax.jit(jax.grad(f))(*args), **options)


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), (0, -1), [0, 2]])
def test_argnums(argnums):
    f = lambda x, y, z: jnp.sum(x * y**2) * z  # noqa: E731
    args = (X, X + 1, 3.0)
    same(fgrad.grad(f, argnums)(*args), jax.grad(f, argnums)(*args))


def test_keyword_arguments_are_passed_on():
    f = lambda x, *, scale, power=2: jnp.sum(scale * x**power)  # noqa: E731
    same(fgrad.grad(f)(X, scale=3.0), jax.grad(f)(X, scale=3.0))
    same(fgrad.grad(f)(X, scale=X, power=3), jax.grad(f)(X, scale=X, power=3))


def test_has_aux():
    f = lambda x: (jnp.sum(x**2), {"double": 2 * x, "outside": X, "text": "kept", "none": None})  # noqa: E731
    got, aux = fgrad.grad(f, has_aux=True)(X)
    same(got, 2 * X)
    assert aux["text"] == "kept" and aux["none"] is None
    assert np.allclose(aux["double"], 2 * X)
    (value, aux), gradient = fgrad.value_and_grad(f, has_aux=True)(X)
    assert np.allclose(value, jnp.sum(X**2)) and np.allclose(gradient, 2 * X) and aux["text"] == "kept"
    same(fgrad.grad(lambda x: [jnp.sum(x**2), x], has_aux=True)(X), (2 * X, X))


def test_aux_may_be_differentiated_from_outside():
    def outer(d):
        def f(x):
            gradient, aux = d(lambda y: (jnp.sum(y**2), y**3), has_aux=True)(x)
            return jnp.sum(gradient * aux)

        return d(f)(X)

    same(outer(fgrad.grad), outer(jax.grad))


def test_holomorphic():
    f = lambda z: jnp.sin(z) * z  # noqa: E731
    same(fgrad.grad(f, holomorphic=True)(1.0 + 2.0j), jax.grad(f, holomorphic=True)(1.0 + 2.0j))
    with pytest.raises(TypeError, match="complex inputs, but args"):
        fgrad.grad(f, holomorphic=True)(1.0)
    with pytest.raises(TypeError, match="complex output"):
        fgrad.grad(jnp.abs, holomorphic=True)(1.0 + 2.0j)
    with pytest.raises(TypeError, match="holomorphic=True"):
        fgrad.grad(f)(1.0 + 2.0j)


def test_allow_int():
    f = lambda n, x: jnp.sum(x * n)  # noqa: E731
    for argnums in (0, (0, 1)):
        got = fgrad.grad(f, argnums, allow_int=True)(jnp.arange(3), X)
        same(got, jax.grad(f, argnums, allow_int=True)(jnp.arange(3), X))
    assert fgrad.grad(f, allow_int=True)(3, X).dtype == FLOAT0


def test_decorators_keep_the_name():
    @fgrad.grad
    def loss(x):
        """What it says."""
        return x * x

    assert (loss.__name__, loss.__doc__) == ("loss", "What it says.")


def test_closed_over_values_are_not_differentiated():
    """Only what is asked for is worked out: a value closed over may even be without a derivative."""
    limit = jnp.array(5.0)

    def f(x):
        steps = jax.lax.while_loop(lambda c: c < limit, lambda c: c + 1.0, limit - 3.0)
        return x * jax.lax.stop_gradient(steps) + jax.lax.while_loop(lambda c: c < limit, lambda c: 2 * c, limit)

    assert fgrad.grad(f)(2.0) == 5.0
    same(fgrad.vjp(f, 2.0)[1](1.0), (jnp.array(5.0),), weak=False)


def steps(limit, step=lambda c: c + 1.0):
    """A loop whose length is known only when it runs."""
    return jax.lax.while_loop(lambda c: c < limit, step, 0.0)


@jax.custom_jvp
def fixed(x):
    """A function whose rule says that nothing depends on its argument."""
    return 2.0 * x


fixed.defjvp(lambda primals, tangents: (fixed(*primals), jnp.zeros_like(primals[0])))


#: functions of such loops whose results do not depend on the argument differentiably
CONSTANT_LOOPS = {
    "condition": lambda x: x * steps(3 * x),
    "rounded": lambda x: x * steps(5.0, lambda c: c + jnp.ceil(x)),
    "beside one that does": lambda x: x * jax.lax.while_loop(
        lambda c: c[0] < 5.0, lambda c: (c[0] + 1.0, c[1] * x), (0.0, x))[0],
    "loop": lambda x: x * steps(5.0, lambda c: c + steps(x)),
    "scan": lambda x: x * steps(5.0, lambda c: c + jax.lax.scan(
        lambda k, _: ((k[0] * x, k[1] + jnp.ceil(k[0])), None), (x, 1.0), None, 2)[0][1]),
    "scanned": lambda x: x * steps(5.0, lambda c: c + jax.lax.scan(lambda k, _: (k, jnp.ceil(k)), x, None, 2)[1][0]),
    "branch": lambda x: x * steps(5.0, lambda c: c + jax.lax.cond(
        x > 0, lambda y: (jnp.ceil(y), y), lambda y: (jnp.floor(y), y), x)[0]),
    "remat": lambda x: x * steps(5.0, lambda c: c + jax.checkpoint(jnp.ceil)(x)),
    "inside of a scan": lambda x: jax.lax.scan(lambda c, _: ((c[0] * x, steps(c[0])), None), (x, 1.0), None, 3)[0][0],
    "custom rule": lambda x: x * steps(5.0, lambda c: c + fixed(x)),
    "random": lambda x: x * jax.random.binomial(jax.random.key(0), 5.0, x / 5),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "random")) for name in CONSTANT_LOOPS]
)
def test_loops_that_give_constants_have_reverse_mode(name):
    f = CONSTANT_LOOPS[name]
    same(fgrad.grad(f)(1.5), jax.grad(f)(1.5))


# -- vjp --------------------------------------------------------------------------------------------------------------


def test_vjp_is_jax_vjp():
    f = lambda x, t: {"a": jnp.outer(x, t[0]), "n": jnp.arange(2), "w": 2.0 * t[1]}  # noqa: E731
    args = (X, (X[:2], 1.5))
    ct = {"a": jnp.ones((3, 2)), "n": np.zeros(2, FLOAT0), "w": 3.0}
    out, pull = fgrad.vjp(f, *args)
    expected, jax_pull = jax.vjp(f, *args)
    same(out, expected)
    same(pull(ct), jax_pull(ct))
    same(pull(ct), jax_pull(ct))
    same(jax.vmap(pull)(jax.tree.map(lambda x: np.stack([np.asarray(x)] * 2), ct)),
         jax.vmap(jax_pull)(jax.tree.map(lambda x: np.stack([np.asarray(x)] * 2), ct)))  # fmt: skip


@pytest.mark.parametrize("ct", [1.0, np.float32(1.0), jnp.float32(1.0), jnp.array(1.0)])
def test_weakness_of_cotangents(ct):
    same(fgrad.vjp(jnp.sin, 1.0)[1](ct), jax.vjp(jnp.sin, 1.0)[1](ct))
    strong = lambda x: jnp.sum(x * X)  # noqa: E731
    same(fgrad.vjp(strong, 1.0)[1](ct), jax.vjp(strong, 1.0)[1](ct))
    both = lambda x: (x * 2, strong(x))  # noqa: E731
    same(fgrad.vjp(both, 1.0)[1]((ct, ct)), jax.vjp(both, 1.0)[1]((ct, ct)))


def test_vjp_aux_and_trees():
    out, pull, aux = fgrad.vjp(lambda t: (total(t), t["pair"].first * 2), every_pytree(), has_aux=True)
    expected, jax_pull, jax_aux = jax.vjp(lambda t: (total(t), t["pair"].first * 2), every_pytree(), has_aux=True)
    same((out, aux, pull(1.0)), (expected, jax_aux, jax_pull(1.0)))


def test_vjp_function_crosses_jit():
    out, pull = jax.jit(lambda x: fgrad.vjp(lambda y: jnp.sin(y) * X, x))(X)
    assert np.allclose(pull(jnp.ones(3))[0], jnp.cos(X) * X)
    traced = []

    @jax.jit
    def apply(pull, ct):
        traced.append(1)
        return pull(ct)

    for x in (X, X + 1):
        pull = fgrad.vjp(lambda y: jnp.sin(y) * X, x)[1]
        assert np.allclose(apply(pull, jnp.ones(3))[0], jnp.cos(x) * X)
    assert len(traced) == 1, "equal pull-backs are one program"


def test_zero_cotangents():
    f = lambda x, y: x * 2  # noqa: E731
    same(fgrad.vjp(f, X, 1.0)[1](X), jax.vjp(f, X, 1.0)[1](X))
    same(fgrad.vjp(f, X, 3)[1](X), jax.vjp(f, X, 3)[1](X))


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (lambda x: x, r"array of shape \(3,\)"),
        (lambda x: None, "None .is a return statement missing"),
        (lambda x: (jnp.sum(x), x), "tuple.*has_aux=True"),
        (lambda x: {"a": jnp.sum(x)}, "dict"),
        (lambda x: "text", "'text' of type str"),
        (lambda x: jnp.sum(x > 0), "integer or boolean"),
        (lambda x: jnp.sum(x) * 1j, "real output"),
    ],
)
def test_output_must_be_a_scalar(output, said):
    with pytest.raises(TypeError, match=said):
        fgrad.grad(output)(X)


def test_integer_input_is_named_by_its_path():
    f = lambda p: jnp.sum(p["w"][1] * 2.0)  # noqa: E731
    with pytest.raises(errors.ArgumentTypeError, match=r"args\[0\]\['w'\]\[1\] has type int32\[3\]"):
        fgrad.grad(f)({"w": (X, jnp.arange(3))})
    with pytest.raises(errors.ArgumentTypeError, match=r"args\[1\] has type bool"):
        fgrad.grad(lambda x, y: x * y, 1)(1.0, True)


@pytest.mark.parametrize(
    ("value", "path"),
    [({"a": "text"}, r"args\[0\]\['a'\]"), (Params(X, object()), r"args\[0\]\.b"), (Pair(X, "s"), r"args\[0\]\.second"),
     (Custom("x", X), r"args\[0\]\.x"), (np.array(["a"]), r"args\[0\]")],
)  # fmt: skip
def test_leaves_must_be_arrays(value, path):
    with pytest.raises(errors.ArgumentTypeError, match=path + " is not an array"):
        fgrad.grad(lambda t: 1.0)(value)
    with pytest.raises(errors.ArgumentTypeError, match=path.replace("args", "primals") + " is not an array"):
        fgrad.vjp(lambda t: 1.0, value)


@pytest.mark.parametrize("argnums", [2, -3, (0, 5)])
def test_argnums_out_of_range(argnums):
    with pytest.raises(ValueError, match=r"called with 2 positional arguments"):
        fgrad.grad(lambda x, y: x, argnums)(1.0, 2.0)
    with pytest.raises(TypeError, match="called with 0 positional arguments"):
        fgrad.grad(lambda x: x)(x=1.0)


def test_argnums_of_a_wrong_kind():
    for bad in ("0", 1.5, (0, "1"), True):
        with pytest.raises(TypeError, match="argnums must be"):
            fgrad.grad(lambda x: x, bad)
    with pytest.raises(ValueError, match="twice"):
        fgrad.grad(lambda x, y: x, (0, -2))(1.0, 2.0)
    with pytest.raises(TypeError, match="takes a function"):
        fgrad.grad(3)


def test_aux_must_be_a_pair():
    with pytest.raises(TypeError, match=r"pair \(value, aux\), got tuple of length 3"):
        fgrad.grad(lambda x: (x, x, x), has_aux=True)(1.0)
    with pytest.raises(TypeError, match=r"pair \(value, aux\)"):
        fgrad.vjp(lambda x: x, 1.0, has_aux=True)


@pytest.mark.parametrize(
    ("ct", "error", "said"),
    [
        ((jnp.ones(3), 1.0), TypeError, r"structure of the cotangent.*expected: PyTreeDef\(\{'a'.*got:.*PyTreeDef\(\("),
        (
            {"a": jnp.ones(2), "b": 1.0},
            ValueError,
            r"\['a'\] has the wrong type.*expected: float32\[3\].*got: *float32\[2\]",
        ),
        ({"a": jnp.ones(3, jnp.float16), "b": 1.0}, TypeError, r"\['a'\].*expected: float32\[3\].*got: *float16\[3\]"),
        ({"a": jnp.ones(3), "b": 1j}, ValueError, r"\['b'\].*complex64\[\]"),
        ({"a": jnp.ones(3), "b": "x"}, TypeError, r"\['b'\] is not an array"),
    ],
)
def test_wrong_cotangents(ct, error, said):
    _, pull = fgrad.vjp(lambda x: {"a": x, "b": jnp.sum(x)}, X)
    with pytest.raises(error, match="(?s)" + said):
        pull(ct)


def test_the_number_of_cotangents():
    for back in (fgrad.vjp(lambda x: 2 * x, X)[1], fgrad.linear_transpose(lambda x: 2 * x, X)):
        for cts in ((), (X, X)):
            with pytest.raises(TypeError, match=f"takes one argument.* got {len(cts)}"):
                back(*cts)


def test_cotangent_of_an_integer_output():
    _, pull = fgrad.vjp(lambda x: (x, jnp.arange(3)), X)
    for ct in (np.zeros(3, FLOAT0), jnp.arange(3), jnp.ones(3)):
        same(pull((X, ct)), (X,))
    with pytest.raises(errors.MismatchError, match=r"float0"):
        pull((X, jnp.arange(2)))


def test_output_leaves_must_be_arrays():
    with pytest.raises(errors.ArgumentTypeError, match=r"output\['name'\] is not an array"):
        fgrad.vjp(lambda x: {"y": x, "name": "text"}, X)


def test_errors_of_the_function_pass_through():
    with pytest.raises(ZeroDivisionError):
        fgrad.grad(lambda x: 1 / 0)(1.0)


def test_partial_and_methods():
    class Model:
        scale = 3.0

        def loss(self, x):
            return self.scale * jnp.sum(x**2)

    assert np.allclose(fgrad.grad(Model().loss)(X), 6 * X)
    assert np.allclose(fgrad.grad(functools.partial(lambda k, x: k * jnp.sum(x), 2.0))(X), 2.0)
