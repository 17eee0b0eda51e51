"""Transformations of transformations, fgrad's and JAX's, in every order, with JAX alone as the oracle."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from tests.api.compare import same

X = jnp.array([0.5, -1.5, 2.0])


def f(x):
    return jnp.sum(jnp.sin(x) * x**2) + x[0] * x[-1] ** 3


# each turns a function from an array to a scalar into another one
STEPS = {
    "grad": lambda lib, g: lambda x: jnp.sum(lib.grad(g)(x) * X),
    "value_and_grad": lambda lib, g: lambda x: jnp.sum(jnp.add(*lib.value_and_grad(g)(x))),
    "vjp": lambda lib, g: lambda x: jnp.sum(lib.vjp(g, x)[1](g(x))[0] ** 2),
    "jvp": lambda lib, g: lambda x: lib.jvp(g, (x,), (x * X,))[1],
    "linearize": lambda lib, g: lambda x: lib.linearize(g, x)[1](X) * 2,
    "jacfwd": lambda lib, g: lambda x: jnp.sum(lib.jacfwd(lambda y: g(y) * y)(x) ** 2),
    "jacrev": lambda lib, g: lambda x: jnp.sum(lib.jacrev(lambda y: g(y) * y)(x)),
    "hessian": lambda lib, g: lambda x: jnp.sum(lib.hessian(g)(x) @ x),
    "jit": lambda lib, g: lib.jit(g),
    "vmap": lambda lib, g: lambda x: jnp.sum(lib.vmap(lambda k: g(k * x))(X)),
    "checkpoint": lambda lib, g: lib.checkpoint(g),
    "scan": lambda lib, g: lambda x: jax.lax.scan(lambda c, a: (c + g(a * x), None), 0.0, X[:2])[0],
    "cond": lambda lib, g: lambda x: jax.lax.cond(x[0] > 0, g, lambda y: 2 * g(y), x),
}


def chain(names, libs):
    g = f
    for name, lib in zip(names, libs, strict=True):
        g = STEPS[name](lib, g)
    return g


# every step around a few that stand for the others, and these around every step
PAIRS = sorted(
    {*itertools.product(STEPS, ("grad", "jvp", "vmap", "scan")), *itertools.product(("grad", "vmap"), STEPS)}
)


# every second one with the thorough tests
@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [pytest.param(p, marks=[pytest.mark.thorough] if i % 2 else []) for i, p in enumerate(PAIRS)], ids="-".join
)
def test_two_deep(names):
    expected = jax.jit(jax.value_and_grad(chain(names, (jax, jax))))(X)
    same(jax.jit(fgrad.value_and_grad(chain(names, (fgrad, fgrad))))(X), expected, 1e-4)
    for libs in ((fgrad, jax), (jax, fgrad)):
        same(jax.jit(chain(names, libs))(X), expected[0], 1e-4, weak=False)


@pytest.mark.parametrize(
    "names", [("grad", "jit"), ("jvp", "grad"), ("vmap", "grad"), ("grad", "scan"), ("jit", "vmap")]
)
def test_two_deep_without_jit(names):
    expected = jax.grad(chain(names, (jax, jax)))(X)
    same(fgrad.grad(chain(names, (fgrad, fgrad)))(X), expected, 1e-4)
    same(fgrad.grad(chain(names, (jax, jax)))(X), expected, 1e-4)
    same(jax.grad(chain(names, (fgrad, fgrad)))(X), expected, 1e-4, weak=False)


DEEP = [
    ("grad", "grad", "grad"), ("jvp", "vjp", "grad"), ("vmap", "jit", "hessian"), ("jit", "vmap", "jacrev"),
    ("scan", "grad", "vmap"), ("checkpoint", "scan", "jvp"), ("cond", "grad", "linearize"),
    ("hessian", "checkpoint", "jit"),
    ("jacfwd", "jit", "value_and_grad"), ("linearize", "vmap", "grad"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("names", DEEP, ids="-".join)
def test_three_deep(names):
    expected = jax.jit(chain(names, (jax, jax, jax)))(X)
    for libs in itertools.product((fgrad, jax), repeat=3):
        if fgrad in libs and libs[1:] != (jax, jax):  # two deep is tested above
            same(jax.jit(chain(names, libs))(X), expected, 1e-3, weak=False)


# -- perturbation confusion, closures, levels -------------------------------------------------------------------------

CONFUSING = {
    "classic": lambda d: d(lambda x: x * d(lambda y: x + y)(1.0))(3.0),
    "inner ignores": lambda d: d(lambda x: x * d(lambda y: x)(1.0) + x)(3.0),
    "outer inside": lambda d: d(lambda x: d(lambda y: x * y * d(lambda z: x * y * z**2)(y))(x))(2.0),
    "returned function": lambda d: d(lambda x: (lambda g: g(x))(d(lambda y: x * y**2)))(3.0),
    "aux": lambda d: d(lambda x: d(lambda y: x * y**3)(2.0) * x)(3.0),
}


@pytest.mark.parametrize("name", CONFUSING)
def test_no_perturbation_confusion(name):
    forward = lambda lib: lambda g: lambda x: lib.jvp(g, (x,), (1.0,))[1]  # noqa: E731
    expected = CONFUSING[name](jax.grad)
    for d in (fgrad.grad, forward(fgrad)):
        same(CONFUSING[name](d), expected, weak=False)
    mixed = itertools.cycle((fgrad.grad, jax.grad, forward(fgrad)))
    same(CONFUSING[name](lambda g: next(mixed)(g)), expected, weak=False)


def test_linear_function_used_at_another_level():
    def run(lib):
        def outer(x):
            _, push = lib.linearize(lambda y: jnp.sin(x * y), x)
            return lib.grad(lambda t: push(t) * x)(x)

        return lib.grad(outer)(1.2)

    same(run(fgrad), run(jax))


# -- control flow -----------------------------------------------------------------------------------------------------


def test_transformations_inside_loop_bodies():
    def run(lib):
        inner = lambda c, a: lib.value_and_grad(lambda y: jnp.sum(jnp.sin(y) * a))(c)  # noqa: E731

        def by_scan(x):
            step = lambda c, a: (c - 0.1 * inner(c, a)[1], inner(c, a)[0])  # noqa: E731
            return jax.lax.scan(step, x, X)

        def by_fori(x):
            return jax.lax.fori_loop(0, 3, lambda i, c: c - 0.1 * inner(c, X[i])[1], x)

        def by_while(x):
            return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] - inner(c[1], 0.5)[1]), (0, x))[1]

        loss = lambda g: lambda x: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(g(x)))  # noqa: E731
        return (
            by_scan(X), by_fori(X), by_while(X), lib.grad(loss(by_scan))(X), lib.grad(loss(by_fori))(X),
            lib.jvp(by_while, (X,), (X,)),
        )  # fmt: skip

    expected = jax.jit(lambda: run(jax))()
    same(jax.jit(lambda: run(fgrad))(), expected, 2e-5)
    same(run(fgrad), expected, 2e-5)


def test_map_switch_and_nested_loops():
    def run(lib):
        branches = [jnp.sin, lambda x: x**2, lambda x: lib.grad(lambda y: jnp.sum(y**3))(x)]
        g = lambda x, i: jnp.sum(jax.lax.switch(i, branches, x))  # noqa: E731
        mapped = lambda x: jnp.sum(jax.lax.map(lambda a: lib.grad(jnp.sin)(a) * a, x))  # noqa: E731
        nested = lambda x: jax.lax.scan(  # noqa: E731
            lambda c, a: (jax.lax.scan(lambda d, b: (jnp.sin(d * b), None), c, x)[0] * a, None), x[0], x
        )[0]
        return [lib.grad(g)(X, i) for i in range(3)], lib.grad(mapped)(X), lib.grad(nested)(X), lib.hessian(nested)(X)

    same(jax.jit(lambda: run(fgrad))(), jax.jit(lambda: run(jax))(), 1e-4)


# -- JAX's functions inside and outside -------------------------------------------------------------------------------


def test_around_jitted_mapped_and_differentiated_functions():
    inner = jax.jit(jax.vmap(jax.grad(lambda x: jnp.sin(x) * x)))
    custom = jax.nn.softplus
    g = lambda x: jnp.sum(inner(x) * custom(x)) + jax.jvp(lambda y: jnp.prod(y), (x,), (x,))[1]  # noqa: E731
    same(fgrad.grad(g)(X), jax.grad(g)(X), 2e-5)
    same(fgrad.jit(fgrad.hessian(g))(X), jax.jit(jax.hessian(g))(X), 1e-4)


def test_one_jitted_function_under_two_levels():
    shared = jax.jit(lambda x, y: jnp.sin(x * y))
    ours = fgrad.jit(lambda x, y: jnp.sin(x * y))

    def run(lib, h):
        return lib.grad(lambda x: lib.grad(lambda y: h(x, y) * h(y, x))(x))(1.3), h(1.0, 2.0)

    expected = run(jax, shared)
    same(run(fgrad, shared), expected)
    same(run(fgrad, ours), expected)
    same(run(jax, ours), expected)


def test_solves_stay_differentiable_under_jax():
    a = jnp.array([[2.0, 1.0], [0.5, 3.0]])
    g = lambda lib: lib.grad(lambda m: jnp.sum(jnp.linalg.solve(m, X[:2]) ** 2))  # noqa: E731
    expected = jax.jvp(g(jax), (a,), (a,))
    same(jax.jvp(g(fgrad), (a,), (a,)), expected, 2e-5)
    same(fgrad.jvp(jax.jit(g(fgrad)), (a,), (a,)), expected, 2e-5)
    same(jax.vmap(g(fgrad))(a[None]), g(jax)(a)[None], 2e-5)


def test_custom_rules_survive_everything():
    @fgrad.custom_jvp
    def h(x):
        return x**2

    h.defjvp(lambda p, t: (h(*p), 10 * p[0] * t[0]))
    g = lambda x: jnp.sum(h(x))  # noqa: E731
    for wrap in (lambda k: k, jax.jit, fgrad.jit, fgrad.checkpoint, lambda k: lambda x: jax.vmap(h)(x).sum()):
        for d in (fgrad.grad, jax.grad):
            same(d(wrap(g))(X), 10 * X)
            same(jax.jit(d(wrap(g)))(X), 10 * X)
    same(fgrad.grad(lambda x: jax.lax.scan(lambda c, a: (c + h(a), None), 0.0, x)[0])(X), 10 * X)


def test_jax_differentiates_the_derivative_of_a_complex_modulus():
    """A rule is made of operations that JAX, too, can differentiate: its own derivative of ``sign`` is zero there."""
    z = jnp.array([1.0 + 2.0j, -0.5 + 0.25j])

    def second(outer, inner):
        return outer.grad(lambda x: jnp.sum(jnp.imag(inner.grad(lambda y: jnp.sum(jnp.abs(y)))(x))))(z)

    for outer, inner in ((fgrad, fgrad), (jax, fgrad), (fgrad, jax)):
        same(second(outer, inner), second(jax, jax))


# -- dtypes -----------------------------------------------------------------------------------------------------------


VALUES = [
    1.5, np.float32(1.5), np.float64(1.5), jnp.float16(1.5), jnp.bfloat16(1.5), jnp.array(1.5), jnp.array([1.5, 2.5]),
    np.array([1.5, 2.5]), 1.5 + 2j, jnp.array([1 + 1j]),
]  # fmt: skip
OPERATIONS = {
    "python number": lambda x: x * 2.5 + 1,
    "strong array": lambda x: x * jnp.ones(2, jnp.float32),
    "half array": lambda x: x * jnp.ones(2, jnp.float16),
    "integer array": lambda x: x * jnp.arange(2),
    "cast": lambda x: (x * 2).astype(jnp.complex64),
    "functions": lambda x: jnp.exp(x) / (1 + x**2),
    "where": lambda x: jnp.where(jnp.real(x) > 0, x, 0.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("value", VALUES, ids=lambda v: str(jax.typeof(v)))
def test_types_are_those_of_jax(name, value):
    g = OPERATIONS[name]
    ones = jax.tree.map(lambda x: x * 0 + 1, value)
    tolerance = 5e-2 if jax.typeof(value).dtype in (jnp.float16, jnp.bfloat16) or name == "half array" else 1e-5
    same(fgrad.jvp(g, (value,), (ones,)), jax.jvp(g, (value,), (ones,)), tolerance)
    out, pull = fgrad.vjp(g, value)
    expected, jax_pull = jax.vjp(g, value)
    same(out, expected, tolerance)
    ct = jnp.ones(jnp.shape(expected), jax.typeof(expected).dtype)
    same(pull(ct), jax_pull(ct), tolerance, weak=False)
    if not jnp.iscomplexobj(expected):
        total = lambda x: jnp.sum(g(x))  # noqa: E731
        same(fgrad.grad(total)(value), jax.grad(total)(value), tolerance)


def test_float0():
    g = lambda x, n: (x * n, n * 2, n > 1)  # noqa: E731
    n = jnp.arange(3)
    zero = np.zeros(3, jax.dtypes.float0)
    same(fgrad.jvp(g, (X, n), (X, zero)), jax.jvp(g, (X, n), (X, zero)))
    same(fgrad.vjp(g, X, n)[1]((X, zero, zero)), jax.vjp(g, X, n)[1]((X, zero, zero)))
    same(fgrad.linearize(g, X, n)[1](X, zero), jax.linearize(g, X, n)[1](X, zero))


def test_double_precision(x64):
    g = lambda x: jnp.sum(jnp.sin(x) * 2.5)  # noqa: E731
    for value in (1.5, np.float64(1.5), np.float32(1.5), jnp.array([1.5, 2.5]), jnp.array([1.5, 2.5], jnp.float32)):
        same(fgrad.vjp(g, value)[0], jax.vjp(g, value)[0], 1e-7)
        same(fgrad.grad(g)(value), jax.grad(g)(value), 1e-7)
        same(fgrad.jvp(g, (value,), (value,)), jax.jvp(g, (value,), (value,)), 1e-7)


# -- many devices -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(jax.device_count() < 8, reason="needs eight host devices")
@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_sharded_arrays(kind):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(kind,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.device_put(jnp.arange(16.0), sharding)
    g = lambda x: jnp.sum(jnp.sin(x) ** 2)  # noqa: E731
    for d in (fgrad.grad(g), jax.jit(fgrad.grad(g)), fgrad.jit(fgrad.grad(g))):
        got = d(x)
        same(got, jax.jit(jax.grad(g))(x))
        assert got.sharding.is_equivalent_to(sharding, 1)


def stops_apart(x, n):
    return jax.lax.while_loop(lambda c: c[1] < n, lambda c: (jnp.sin(c[0]) * 2, c[1] + 1), (x, 0))[0]


@pytest.mark.parametrize(
    ("g", "n"),
    [
        (jax.vmap(stops_apart), [0, 2, 5]),
        (jax.jit(jax.vmap(stops_apart)), [0, 2, 5]),
        (jax.vmap(jax.vmap(stops_apart), (None, 0)), [[0, 2, 5], [1, 1, 3]]),
    ],
    ids=["vmap", "jit vmap", "vmap vmap"],
)
def test_jax_vmap_of_a_loop_whose_examples_stop_apart(g, n):
    n = jnp.array(n)
    same(fgrad.jvp(lambda x: g(x, n), (X,), (X,)), jax.jvp(lambda x: g(x, n), (X,), (X,)), weak=False)


@pytest.mark.parametrize(
    "region",
    [
        lambda x: jax.lax.cond(x > 0, lambda x: x * x, jnp.sin, x),
        lambda x: jax.lax.scan(lambda c, _: (c * 2, c), x, None, length=2)[1],
        lambda x: jax.lax.map(lambda _: x, jnp.arange(2)),
    ],
    ids=["cond", "scan", "map"],
)
def test_weak_types_go_through_regions(region):
    def weighed(x):
        return jnp.sum(region(x) * jnp.ones(2, jnp.bfloat16))

    same(fgrad.value_and_grad(weighed)(2.0), jax.value_and_grad(weighed)(2.0), 1e-2)
    same(fgrad.jit(weighed)(2.0), jax.jit(weighed)(2.0), 1e-2)


def test_a_custom_gradient_that_is_a_constant():
    @jax.custom_gradient
    def function(x, y):
        return x * y, lambda ct: (ct * y, 7.0)

    same(fgrad.grad(function, (0, 1))(2.0, 3.0), (jnp.asarray(3.0), jnp.asarray(7.0)), weak=False)


def test_a_reshape_in_column_order_to_the_transposed_shape():
    def function(x):
        return jnp.reshape(x, (3, 2), order="F")

    x = jnp.arange(6.0).reshape(2, 3)
    same(fgrad.jvp(function, (x,), (x * 2,)), jax.jvp(function, (x,), (x * 2,)))
    same(fgrad.jit(function)(x), function(x))


BY_SYMBOL = {
    "scan": lambda w, x: jax.lax.scan(lambda c, v: (jnp.sin(c * w + v), c), 0.0, x)[1].sum(),
    "unread": lambda w, x: jax.lax.scan(lambda c, v: (c * w, c), 1.0, x)[0],
    "remat": lambda w, x: jax.lax.scan(jax.checkpoint(lambda c, v: (jnp.sin(c * w + v), c)), 0.0, x)[1].sum(),
    "windows": lambda w, x: jax.lax.reduce_window(w * x, -jnp.inf, jax.lax.max, (2,), (1,), "VALID").sum(),
}


@pytest.mark.parametrize("derive", ["grad", "hessian"])
@pytest.mark.parametrize("f", BY_SYMBOL.values(), ids=BY_SYMBOL)
def test_derivatives_are_exported_for_symbolic_lengths(f, derive):
    def exported(library):
        length = jax.export.symbolic_shape("n", constraints=["n >= 2"])
        types = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct(length, jnp.float32)
        derivative = getattr(library, derive)(f)
        return jax.export.export(jax.jit(lambda w, x: derivative(w, x)))(*types).call(w, x)

    w, x = jnp.float32(0.3), jnp.arange(4.0)
    same(exported(fgrad), exported(jax))
