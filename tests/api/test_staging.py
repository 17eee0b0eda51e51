"""jit, eval_shape, closure_convert, vmap and stop_gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad import errors
from tests.api.compare import Custom, every_pytree, same, total

X = jnp.array([0.5, -1.5, 2.0])


# -- jit --------------------------------------------------------------------------------------------------------------


def test_jit_is_jax_jit():
    f = lambda t, k=2.0: {"value": total(t) * k, "pair": t["pair"], "none": None, "weak": 3.0 * k}  # noqa: E731
    tree = every_pytree()
    for args, kwargs in (((tree,), {}), ((tree, 1.5), {}), ((tree,), {"k": X[0]})):
        same(fgrad.jit(f)(*args, **kwargs), jax.jit(f)(*args, **kwargs))
        same(jax.jit(fgrad.jit(f))(*args, **kwargs), jax.jit(f)(*args, **kwargs))


def test_it_is_recorded_once_per_type():
    recorded = []

    @fgrad.jit
    def f(x):
        recorded.append(1)
        return jnp.sin(x)

    for x in (X, X + 1, X * 2):
        f(x)
    assert len(recorded) == 1
    f(X[:2])
    f(1.0)
    f(2.5)  # another Python number is no other program
    assert len(recorded) == 3


def test_one_program_without_what_is_not_needed():
    def f(x):
        unused = jnp.exp(jnp.cosh(x))  # noqa: F841
        return (jnp.sin(x) * 1.0 + 0.0) + jnp.sin(x)

    text = str(fgrad.jit(f).trace(X).jaxpr)
    assert text.count("sin") == 1 and "exp" not in text and "cosh" not in text


def test_methods_of_jax_jit():
    f = fgrad.jit(lambda x, n: x**n, static_argnames="n")
    assert f.lower(X, n=3).compile()(X) is not None
    assert f.eval_shape(X, n=3).shape == (3,)
    assert "integer_pow" in str(f.trace(X, n=3).jaxpr)
    f.clear_cache()
    g = fgrad.jit(jnp.sin)
    assert g.lower(X).as_text() and g.eval_shape(X).shape == (3,)
    g.clear_cache()


def test_static_arguments():
    def power(x, n, flag=False, *, name="a"):
        assert isinstance(n, int) and isinstance(flag, bool) and isinstance(name, str)
        return -(x**n) if flag else x**n

    statics = {"static_argnums": (1, 2), "static_argnames": ("name",)}
    same(fgrad.jit(power, **statics)(X, 3, True, name="b"), -(X**3))
    same(fgrad.jit(power, static_argnums=(1, -1), static_argnames="name")(X, 3, True), -(X**3))
    same(fgrad.grad(lambda x: fgrad.jit(power, **statics)(x, 3).sum())(X), 3 * X**2)


def test_unhashable_static_argument_is_named():
    f = fgrad.jit(lambda x, sizes, *, table=(): x, static_argnums=1, static_argnames="table")
    with pytest.raises(errors.UnhashableStaticError, match=r"args\[1\] \(sizes\) is of the unhashable type list"):
        f(X, [1, 2])
    with pytest.raises(errors.UnhashableStaticError, match=r"argument table is of the unhashable type dict"):
        f(X, (1, 2), table={})
    with pytest.raises(errors.UnhashableStaticError, match="argument sizes"):
        fgrad.jit(lambda x, sizes: x, static_argnums=1)(X, sizes=[1])
    with pytest.raises(TypeError, match="own complaint"):
        fgrad.jit(_complains, static_argnums=1)(X, 2)


def _complains(x, n):
    raise TypeError("own complaint")


def test_decorator_and_method():
    @functools.partial(fgrad.jit, static_argnames=("n",))
    def f(x, n):
        """Doc."""
        return x * n

    assert f.__name__ == "f" and f.__doc__ == "Doc."
    same(f(X, n=2), X * 2)

    @fgrad.jit(static_argnums=1)
    def g(x, n):
        return x + n

    same(g(X, 2), X + 2)

    class Model:
        def __init__(self, k):
            self.k = k

        @functools.partial(fgrad.jit, static_argnums=0)
        def scaled(self, x):
            return self.k * x

        @fgrad.jit
        def __call__(self, x):
            return x

    same(Model(3.0).scaled(X), 3 * X)
    tree = Custom(X, 2.0)
    same(fgrad.jit(lambda t: t.x * t.y)(tree), 2 * X)


def test_donation_and_other_keywords():
    f = fgrad.jit(lambda x: x + 1, donate_argnums=0, keep_unused=True, inline=True)
    x = jnp.ones(4)
    same(f(x), jnp.ones(4) * 2)
    assert x.is_deleted()
    with pytest.raises(TypeError):
        fgrad.jit(lambda x: x, no_such_keyword=1)
    with pytest.raises(TypeError, match="takes a function"):
        fgrad.jit(3)


def test_disable_jit():
    seen = []
    with jax.disable_jit():
        fgrad.jit(lambda x: seen.append(float(x[0])) or x)(X)
        fgrad.jit(lambda x: seen.append(float(x)) or x)(2.0)
        assert fgrad.grad(fgrad.jit(lambda x: x**2 if x > 0 else x))(3.0) == 6.0
    assert seen == [0.5, 2.0]


def test_closing_over_traced_values():
    f = lambda d, jit: d(lambda a: jit(lambda x: jnp.sum(a * x * x))(X))(X)  # noqa: E731
    same(f(fgrad.grad, fgrad.jit), f(jax.grad, jax.jit))
    same(f(jax.grad, fgrad.jit), f(jax.grad, jax.jit))
    same(jax.jit(lambda y: f(fgrad.grad, fgrad.jit) * y)(2.0), f(jax.grad, jax.jit) * 2.0)
    same(jax.vmap(lambda a: fgrad.jit(lambda x: a * x)(a))(X), X * X)


def test_values_are_not_concrete_under_jit():
    def f(x):
        if x > 0:  # the line
            return x
        return -x

    for jit in (fgrad.jit, jax.jit):
        with pytest.raises(errors.NotConcreteError if jit is fgrad.jit else TypeError, match="bool"):
            jit(fgrad.grad(f))(1.0)
    with pytest.raises(errors.NotConcreteError, match=r"(?s)test_staging.py:\d+.*static_argnums.*jnp.where"):
        fgrad.jit(f)(1.0)
    with pytest.raises(errors.NotConcreteError, match="float"):
        fgrad.jit(lambda x: float(x))(1.0)


def test_effects_run_once_per_call(capfd):
    @fgrad.jit
    def f(x):
        jax.debug.print("value {}", x)
        return x * 2

    f(1.0)
    f(2.0)
    jax.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:2] == ["value 1.0", "value 2.0"]


def test_random_keys_and_integers():
    f = lambda key, n: jax.random.normal(key, (3,)) * n  # noqa: E731
    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        same(fgrad.jit(f)(key, jnp.arange(3)), f(key, jnp.arange(3)), weak=False)


def test_a_kept_value_is_refused_at_once_where_jax_checks_for_leaks():
    kept = []

    def f(x):
        kept.append(jnp.sin(x))
        return jnp.sum(x)

    with jax.checking_leaks():
        for g in (f, fgrad.grad(f)):
            with pytest.raises(errors.LeakedTracerError, match=r"(?s)leaked.*test_staging.py"):
                fgrad.jit(g)(X)
            kept.clear()
        same(fgrad.jit(fgrad.grad(lambda x: jnp.sum(jnp.sin(x))))(X), jnp.cos(X))


# -- eval_shape, closure_convert --------------------------------------------------------------------------------------


def test_eval_shape():
    f = lambda x, *, y: {"a": jnp.outer(x, y), "b": fgrad.grad(lambda z: jnp.sum(z * x))(y)}  # noqa: E731
    spec = jax.ShapeDtypeStruct((3,), jnp.float32)
    got, expected = fgrad.eval_shape(f, spec, y=spec), jax.eval_shape(f, spec, y=spec)
    assert got == expected


def test_closure_convert():
    def solve(closure_convert, d):
        def outer(a):
            converted, values = closure_convert(lambda x: {"y": a * x + X}, X)
            assert len(values) == 1
            return jnp.sum(converted(X * 2, *values)["y"] ** 2)

        return d(outer)(X)

    expected = solve(jax.closure_convert, jax.grad)
    same(solve(fgrad.closure_convert, fgrad.grad), expected)
    same(solve(fgrad.closure_convert, jax.grad), expected)
    converted, values = fgrad.closure_convert(lambda x: x * X, X)
    assert values == []
    same(converted(X), X * X)
    with pytest.raises(TypeError, match=r"(?s)example's structure.*expected.*got"):
        converted((X,))


# -- vmap -------------------------------------------------------------------------------------------------------------

ROWS = jnp.stack([X, X + 1, X * 2, X - 1])


def test_vmap_is_jax_vmap():
    f = lambda x, t: {"y": x * t["k"], "s": jnp.sum(x) + t["c"]}  # noqa: E731
    args = (ROWS, {"k": ROWS.T, "c": 2.0})
    for in_axes in ((0, {"k": 1, "c": None}), (0, {"k": -1, "c": None})):
        for out_axes in (0, {"y": 1, "s": 0}):
            got = fgrad.vmap(f, in_axes=in_axes, out_axes=out_axes)(*args)
            same(got, jax.vmap(f, in_axes=in_axes, out_axes=out_axes)(*args))
    named = lambda m: m(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(ROWS)  # noqa: E731
    same(named(fgrad.vmap), named(jax.vmap))
    sized = lambda m: m(lambda x: x * 2, in_axes=None, axis_size=3)(X)  # noqa: E731
    same(sized(fgrad.vmap), sized(jax.vmap))


@pytest.mark.parametrize(
    "order", ["grad of vmap", "vmap of grad", "vmap of vjp", "vmap of jvp", "jvp of vmap", "per example"]
)
def test_vmap_composes(order):
    def run(lib):
        f = lambda x, y: jnp.sum(jnp.sin(x) * y)  # noqa: E731
        weights = {"in_axes": ({"w": None}, 0)}
        net = lambda p, x: jnp.tanh(p["w"] @ x).sum()  # noqa: E731
        p = {"w": jnp.ones((2, 3)) / 3}
        return {
            "grad of vmap": lambda: lib.grad(lambda x: jnp.sum(lib.vmap(f, (1, None))(x, X) ** 2))(ROWS.T),
            "vmap of grad": lambda: lib.vmap(lib.grad(f, (0, 1)), (0, None), out_axes=(1, 0))(ROWS, X),
            "vmap of vjp": lambda: lib.vmap(lambda x: lib.vjp(f, x, X)[1](2.0))(ROWS),
            "vmap of jvp": lambda: lib.vmap(lambda x: lib.jvp(f, (x, X), (x, X)))(ROWS),
            "jvp of vmap": lambda: lib.jvp(lambda x: lib.vmap(f, (0, None))(x, X), (ROWS,), (ROWS,)),
            "per example": lambda: lib.vmap(lib.value_and_grad(net), **weights)(p, ROWS),
        }[order]()

    same(run(fgrad), run(jax), 2e-5)


def test_collectives_inside():
    def run(lib):
        f = lambda x: jnp.sum(jax.lax.pmean(x**2, "batch") * x)  # noqa: E731
        return lib.vmap(lib.grad(f), axis_name="batch")(ROWS)

    same(run(fgrad), run(jax), 2e-5)


# -- stop_gradient ----------------------------------------------------------------------------------------------------


def test_stop_gradient():
    tree = {"a": X, "n": jnp.arange(3), "none": None, "number": 2.0}
    same(fgrad.stop_gradient(tree), jax.lax.stop_gradient(tree))

    def run(lib, stop):
        f = lambda x: jnp.sum(stop({"y": x**2})["y"] * x)  # noqa: E731
        return lib.grad(f)(X), lib.jvp(f, (X,), (X,)), lib.grad(lambda x: jnp.sum(lib.grad(f)(x)))(X)

    same(run(fgrad, fgrad.stop_gradient), run(jax, jax.lax.stop_gradient))
    same(jax.grad(lambda x: x * fgrad.stop_gradient(x))(3.0), jnp.array(3.0), weak=False)
    assert np.allclose(fgrad.grad(lambda x: float(fgrad.stop_gradient(x)) * x)(3.0), 3.0)


def test_what_is_to_be_worked_out_at_compile_time():
    def f(x):
        with jax.ensure_compile_time_eval():
            scale = float(jax.nn.relu(jnp.sin(jnp.asarray(2.0))) + jax.jit(jnp.cos)(1.0))
        return x * scale * x

    wanted = jax.jit(jax.grad(f))(1.5)
    gradients = (
        fgrad.jit(fgrad.grad(f)), fgrad.grad(fgrad.jit(f)), fgrad.grad(fgrad.checkpoint(f)),
        fgrad.jit(fgrad.grad(fgrad.checkpoint(f))), fgrad.make_graph(fgrad.grad(f))(1.5),
    )  # fmt: skip
    for gradient in gradients:
        np.testing.assert_allclose(gradient(1.5), wanted, rtol=1e-6)
