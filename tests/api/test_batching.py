"""Batching rules of primitives: under ``fgrad.vmap``, ``jax.vmap`` and in what fgrad has recorded."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

import fgrad
from fgrad import errors
from tests.api.compare import same
from tests.api.test_custom import new_primitive

XS = jnp.array([0.5, -1.5, 2.0])
GRID = jnp.arange(6.0).reshape(2, 3) / 3

#: how often each rule was called, by primitive
called = {}


def counted(name, rule):
    def rule_counted(size, in_batched, *args, **params):
        called[name] = called.get(name, 0) + 1
        return rule(size, in_batched, *args, **params)

    return rule_counted


def elementwise(prim):
    """The rule of a primitive of two arguments that is elementwise: it binds the primitive again."""

    def rule(size, in_batched, x, y, **params):
        rank = max(x.ndim - in_batched[0], y.ndim - in_batched[1])
        x, y = (
            a.reshape(size, *[1] * (rank + 1 - a.ndim), *a.shape[1:]) if yes else a
            for a, yes in zip((x, y), in_batched, strict=True)
        )
        return prim.bind(*jnp.broadcast_arrays(x, y), **params), True

    return rule


def compiled_primitive(name, function, multiple=False):
    """A primitive that XLA knows too."""
    prim = new_primitive(name, function, multiple)
    mlir.register_lowering(prim, mlir.lower_fun(function, multiple))
    return prim


scaled = compiled_primitive("batched_scaled_sin", lambda x, y, *, k: jnp.sin(k * x) * y)
fgrad.define_rule(
    scaled,
    # the derivative holds the primitive itself
    vjp=lambda ct, out, x, y, k: (ct * k * scaled.bind(x + jnp.pi / (2 * k), y, k=k), scaled.bind(x, ct, k=k)),
    batching=counted("scaled", elementwise(scaled)),
)
halves = compiled_primitive("batched_halves", lambda x: [x[: len(x) // 2] * 2, x[len(x) // 2 :].sum()], multiple=True)
fgrad.define_rule(
    halves,
    transpose=lambda cts, x: (jnp.concatenate([2 * cts[0], jnp.full(len(x) - len(cts[0]), cts[1])]),),
    batching=counted(
        "halves", lambda size, b, x: ([2 * x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :].sum(1)], [True, True])
    ),
)


def ours(x, y):
    return scaled.bind(x, y, k=2.0)


def plain(x, y):
    return jnp.sin(2.0 * x) * y


PROGRAMS = {
    "as it is": lambda f, api: f,
    "jit": lambda f, api: api.jit(f),
    "in jax.jit": lambda f, api: jax.jit(f),
    "in a loop": lambda f, api: lambda x, y: jax.lax.fori_loop(0, 3, lambda i, c: f(c, y), x),
    "in a branch": lambda f, api: lambda x, y: jax.lax.cond(x > 0, f, lambda x, y: x + y, x, y),
    "in a remat": lambda f, api: jax.checkpoint(f),
    "grad": lambda f, api: api.grad(f),
    "value and grad": lambda f, api: api.value_and_grad(f, (0, 1)),
    "second order": lambda f, api: api.grad(api.grad(f), 1),
    "grad of a loop": lambda f, api: api.grad(lambda x, y: jax.lax.scan(lambda c, _: (f(c, y), c), x, None, 3)[0]),
    "jvp": lambda f, api: lambda x, y: api.jvp(f, (x, y), (y, x)),
    "vjp": lambda f, api: lambda x, y: api.vjp(f, x, y)[1](y),
    "linearize": lambda f, api: lambda x, y: api.linearize(f, x, y)[1](y, x),
}
AXES = [(0, 0), (0, None), (None, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_vmap_follows_the_rule(name, axes):
    args = [XS if axis == 0 else XS[1] for axis in axes]
    called.clear()
    got = fgrad.vmap(PROGRAMS[name](ours, fgrad), axes)(*args)
    # JAX keeps the mapped bodies of loops and branches; the mixed derivative does not depend on y
    assert called or " a " in name or (name, axes[0]) == ("second order", None)
    expected = jax.vmap(PROGRAMS[name](plain, jax), axes)(*args)
    same(got, expected, weak=False)
    same(fgrad.jit(fgrad.vmap(PROGRAMS[name](ours, fgrad), axes))(*args), expected, weak=False)
    same(jax.jit(fgrad.vmap(PROGRAMS[name](ours, fgrad), axes))(*args), expected, weak=False)


@pytest.mark.parametrize("name", ["jit", "grad", "value and grad", "second order", "grad of a loop", "jvp", "vjp"])
def test_jax_vmap_of_what_fgrad_recorded_follows_the_rule(name):
    called.clear()
    got = jax.vmap(PROGRAMS[name](ours, fgrad))(XS, XS[::-1])
    assert called or "loop" in name
    same(got, jax.vmap(PROGRAMS[name](plain, jax))(XS, XS[::-1]), weak=False)


@pytest.mark.parametrize("name", ["as it is", "in a loop", "grad", "value and grad", "second order"])
def test_nested_vmaps(name):
    def nested(vmap, f):
        return (
            vmap(vmap(f, (0, None)), (None, 0))(XS, XS[:2]),
            vmap(vmap(f))(GRID, GRID + 1),
            vmap(vmap(f, (None, 0)))(GRID[:, 0], GRID),
        )

    expected = nested(jax.vmap, PROGRAMS[name](plain, jax))
    same(nested(fgrad.vmap, PROGRAMS[name](ours, fgrad)), expected, weak=False)
    same(jax.jit(lambda: nested(fgrad.vmap, PROGRAMS[name](ours, fgrad)))(), expected, weak=False)


def test_derivatives_of_a_vmap():
    f = lambda f, vmap: lambda x: jnp.sum(vmap(f, (0, None))(x, x[0]) ** 2)  # noqa: E731
    expected = jax.grad(f(plain, jax.vmap))(XS)
    same(fgrad.grad(f(ours, fgrad.vmap))(XS), expected)
    same(fgrad.jit(fgrad.grad(f(ours, fgrad.vmap)))(XS), expected)
    same(fgrad.grad(f(fgrad.jit(ours), jax.vmap))(XS), expected)
    same(fgrad.jvp(f(ours, fgrad.vmap), (XS,), (XS,)), jax.jvp(f(plain, jax.vmap), (XS,), (XS,)))
    same(fgrad.hessian(f(ours, fgrad.vmap))(XS), jax.hessian(f(plain, jax.vmap))(XS), 1e-4)
    same(
        fgrad.vmap(fgrad.grad(f(ours, fgrad.vmap)))(GRID),
        jax.vmap(jax.grad(f(plain, jax.vmap)))(GRID),
    )


def test_jacobians_follow_the_rule():
    for ours_, theirs in ((fgrad.jacfwd, jax.jacfwd), (fgrad.jacrev, jax.jacrev)):
        same(ours_(lambda x: ours(x, 2 * x))(XS), theirs(lambda x: plain(x, 2 * x))(XS))


def test_multiple_results():
    f = lambda x: halves.bind(x)  # noqa: E731
    rows = jnp.arange(8.0).reshape(2, 4)
    called.clear()
    a, b = fgrad.vmap(f)(rows)
    assert called == {"halves": 1}
    same((a, b), (2 * rows[:, :2], rows[:, 2:].sum(1)))
    same(fgrad.vmap(fgrad.grad(lambda x: f(x)[1] * f(x)[0][0]))(rows),
         jax.vmap(jax.grad(lambda x: x[2:].sum() * 2 * x[0]))(rows))  # fmt: skip
    same(fgrad.vmap(f, in_axes=1, out_axes=[1, 0])(rows.T)[0], 2 * rows[:, :2].T)


def test_a_rule_may_ask_for_numbers_where_they_are_known():
    prim = compiled_primitive("batched_by_numpy", lambda x: x + 1)
    fgrad.define_rule(prim, batching=lambda size, in_batched, x: (jnp.asarray(np.asarray(x) + 1), True))
    same(fgrad.vmap(prim.bind)(XS), XS + 1)
    same(fgrad.vmap(lambda x: jax.jit(prim.bind)(x) * 2)(XS), 2 * (XS + 1))
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(fgrad.vmap(prim.bind))(XS)


def test_arguments_that_are_not_mapped_keep_their_numbers():
    f = lambda x, n, what: ours(x, 1.0) if n > 1 and what == "sin" else x  # noqa: E731
    same(fgrad.vmap(f, (0, None, None))(XS, 2, "sin"), jnp.sin(2 * XS))
    assert fgrad.vmap(lambda x, y: (ours(x, y), "text" and 3.0, y), (0, None))(XS, 2.0)[1].shape == (3,)


def test_an_axis_with_a_name():
    def f(x, g):
        return g(x, jax.lax.psum(x, "i")) + jax.lax.axis_index("i")

    got = fgrad.vmap(lambda x: f(x, ours), axis_name="i")(XS)
    same(got, jax.vmap(lambda x: f(x, plain), axis_name="i")(XS))
    got = fgrad.vmap(fgrad.grad(lambda x: f(x, ours)), axis_name="i")(XS)
    same(got, jax.vmap(jax.grad(lambda x: f(x, plain)), axis_name="i")(XS))


def test_rules_are_checked_and_replaced():
    prim = new_primitive("batched_later", lambda x: x**2)
    fgrad.define_rule(prim, vjp=lambda ct, out, x: (2 * x * ct,))
    fgrad.define_rule(prim, batching=lambda size, in_batched, x: (2 * x, True))
    with pytest.raises(errors.RuleCheckError, match="batching rule of 'batched_later'"):
        fgrad.check_rule(prim, 3.0)
    same(fgrad.vmap(prim.bind)(XS), 2 * XS)
    right = lambda size, in_batched, x: (prim.bind(x), True)  # noqa: E731
    with pytest.raises(ValueError, match="'batched_later' has a rule already"):
        fgrad.define_rule(prim, batching=right)
    fgrad.define_rule(prim, batching=right, replace=True, check=(3.0,))
    same(fgrad.vmap(fgrad.value_and_grad(prim.bind))(XS), (XS**2, 2 * XS))


def test_jax_follows_it():
    prim = compiled_primitive("batched_for_jax", lambda x: [x**2, x + 1], multiple=True)
    f = lambda x: prim.bind(x)[0] * prim.bind(x)[1]  # noqa: E731
    with pytest.raises(NotImplementedError, match="Batching rule for 'batched_for_jax'"):
        jax.vmap(f)(XS)
    sizes = []

    def batching(size, in_batched, x):
        sizes.append(size)
        return prim.bind(x), [True, True]

    fgrad.define_rule(prim, batching=batching)
    for mapped in (jax.vmap(f), jax.vmap(jax.jit(f)), jax.jit(jax.vmap(f))):
        same(mapped(XS), XS**2 * (XS + 1))
    same(jax.vmap(lambda x: f(x) + f(3.0))(XS), XS**2 * (XS + 1) + 36)
    assert set(sizes) == {len(XS)}
    same(jax.vmap(jax.vmap(f), in_axes=1, out_axes=1)(GRID), GRID**2 * (GRID + 1))


def test_a_rule_may_say_that_a_result_is_not_mapped():
    prim = new_primitive("batched_shape", lambda x: [jnp.asarray(float(x.ndim)), x + 1], multiple=True)
    fgrad.define_rule(prim, batching=lambda size, in_batched, x: ([jnp.float32(x.ndim - 1), x + 1], [False, True]))
    assert [float(d) for d in fgrad.vmap(prim.bind)(GRID)[0]] == [1.0, 1.0]


def test_graphs_and_saved_programs_keep_the_primitive():
    graph = fgrad.make_graph(ours)(1.0, 2.0)
    assert [node.primitive.name for node in graph.nodes][-1] == "batched_scaled_sin"
    same(fgrad.vmap(lambda x: graph(x, 2.0))(XS), plain(XS, 2.0), weak=False)
    same(jax.vmap(lambda x: graph(x, 2.0))(XS), plain(XS, 2.0), weak=False)


@pytest.mark.skipif("sum_match" not in inspect.signature(jax.vmap).parameters, reason="new in JAX 0.12")
def test_results_that_are_summed():
    def f(vmap):
        return lambda xs: vmap(lambda x: jnp.sin(x) * x, out_axes=None, sum_match=True)(xs)

    same(fgrad.grad(f(fgrad.vmap))(XS), jax.grad(f(jax.vmap))(XS))


@pytest.mark.parametrize(
    "collective",
    [
        lambda x: lax.psum(x, "q"),
        lambda x: lax.psum_scatter(x, "q"),
        lambda x: lax.all_gather(x, "q"),
        lambda x: lax.ppermute(x, "q", [(0, 1), (1, 0)]),
        lambda x: lax.scan(lambda c, _: (lax.psum(c, "q") * 0.3, None), x, None, length=2)[0],
    ],
    ids=["psum", "psum_scatter", "all_gather", "ppermute", "scan"],
)
@pytest.mark.parametrize("around", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
def test_an_inner_derivative_sums_what_only_an_outer_one_traces(collective, around):
    """The values are not mapped, so that JAX's batching does not own them, but the axis is the inner vmap's."""

    def program(library):
        def inner(c, x):
            return library.vjp(lambda y: jnp.sum(collective(y) ** 2), c)[1](c[0])[0] * x

        def total(c):
            return jnp.sum(library.vmap(lambda x: inner(c, x), axis_name="q")(jnp.array([1.0, 2.0])))

        return around(library.value_and_grad(total))(jnp.array([0.5, 2.0]))

    same(program(fgrad), program(jax))
