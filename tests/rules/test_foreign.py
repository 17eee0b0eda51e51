"""Primitives whose rules their author registered with JAX: every mode, nesting and place, against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import fgrad
from fgrad.rules import foreign
from fgrad.rules.kinds import RULES
from tests.oracle import compiled


def primitive(name, impl, multiple=False):
    """A primitive that computes ``impl``, without any rule for its derivative."""
    made = Primitive(name)
    made.multiple_results = multiple
    made.def_impl(impl)
    made.def_abstract_eval(
        lambda *types, **params: jax.tree.map(
            lambda t: jax.core.ShapedArray(t.shape, t.dtype),
            jax.eval_shape(lambda *xs: impl(*xs, **params), *[jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]),
        )
    )
    mlir.register_lowering(made, mlir.lower_fun(impl, multiple_results=multiple))

    def batched(args, axes, **params):
        args = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(args, axes, strict=True)]
        outs = jax.vmap(lambda *xs: impl(*xs, **params), [None if a is None else 0 for a in axes])(*args)
        return outs, jax.tree.map(lambda _: 0, outs)

    batching.primitive_batchers[made] = batched
    return made


#: a rule for each argument
hypot_p = primitive("foreign_hypot", lambda x, y: jnp.sqrt(x * x + y * y))
ad.defjvp(
    hypot_p,
    lambda t, x, y: t * x / hypot_p.bind(x, y),
    lambda t, x, y: t * y / hypot_p.bind(x, y),
)

#: a rule for each argument that reads the result; the second has none
power_p = primitive("foreign_power", lambda x, y, *, n: x**n + 0 * y)
ad.defjvp2(power_p, lambda t, out, x, y, *, n: t * n * out / x, None)

#: linear
flip_p = primitive("foreign_flip", lambda x: 2 * x[::-1])
ad.deflinear2(flip_p, lambda ct, x: (flip_p.bind(ct),))

#: linear in each of two arguments
outer_p = primitive("foreign_outer", lambda x, y: x[:, None] * y[None])
ad.defbilinear(
    outer_p,
    lambda ct, x, y: jnp.sum(ct * y[None], 1),
    lambda ct, x, y: jnp.sum(ct * x[:, None], 0),
)

#: several results, one of them an integer; linear in the second argument, by its transpose
solve_p = primitive("foreign_solve", lambda a, b: (b / a, jnp.argmax(b)), multiple=True)


def _solve_jvp(primals, tangents):
    (a, b), (ta, tb) = primals, tangents
    x, at = solve_p.bind(a, b)
    rhs = [] if type(tb) is ad.Zero else [tb]
    rhs += [] if type(ta) is ad.Zero else [-ta * x]
    t, _ = solve_p.bind(a, sum(rhs))
    return (x, at), (t, ad.Zero(jax.typeof(at).to_tangent_aval()))


def _solve_transpose(cts, a, b):
    assert not ad.is_undefined_primal(a)
    assert ad.is_undefined_primal(b)
    ct, of_integer = cts
    assert type(of_integer) is ad.Zero
    return None, ad.Zero(b.aval) if type(ct) is ad.Zero else solve_p.bind(a, ct)[0]


ad.primitive_jvps[solve_p] = _solve_jvp
ad.primitive_transposes[solve_p] = _solve_transpose

#: its parameter holds a jaxpr, and its rule JAX's own transformations of it
apply_p = primitive(
    "foreign_apply", lambda *xs, jaxpr: jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *xs), multiple=True
)


def _apply_jvp(primals, tangents, *, jaxpr):
    tangents = [ad.instantiate_zeros(t) for t in tangents]
    return jax.jvp(lambda *xs: apply_p.impl(*xs, jaxpr=jaxpr), tuple(primals), tuple(tangents))


ad.primitive_jvps[apply_p] = _apply_jvp

X, Y = jnp.array([0.5, -1.2, 2.0]), jnp.array([1.5, 0.3, -0.7])


@jax.custom_jvp
def tripled(x):
    return 3 * x


tripled.defjvps(lambda t, out, x: 5 * flip_p.bind(t))


@jax.custom_vjp
def doubled(x):
    return 2 * x


doubled.defvjp(lambda x: (doubled(x), x), lambda x, ct: (flip_p.bind(ct) * x,))
_JAXPR = jax.make_jaxpr(lambda x, y: (jnp.sin(x) * y, hypot_p.bind(x, y)))(X, Y)

FUNCTIONS = {
    "defjvp": lambda x, y: hypot_p.bind(jnp.sin(x), y),
    "defjvp2": lambda x, y: power_p.bind(x, y, n=3) * power_p.bind(y, x, n=2),
    "deflinear2": lambda x, y: flip_p.bind(x * y) * x,
    "defbilinear": lambda x, y: outer_p.bind(jnp.sin(x), y),
    "several results": lambda x, y: solve_p.bind(jnp.exp(x), x * y)[0],
    "an integer result": lambda x, y: x * solve_p.bind(y, x)[1],
    "a jaxpr": lambda x, y: jnp.stack(apply_p.bind(x, y, jaxpr=_JAXPR)),
    "jit": lambda x, y: jax.jit(hypot_p.bind)(x, jax.jit(flip_p.bind)(y)),
    "scan": lambda x, y: lax.scan(lambda c, s: (flip_p.bind(c) * s + hypot_p.bind(c, y), c[0]), x, y),
    "cond": lambda x, y: lax.cond(x[0] > 0, lambda x: flip_p.bind(x), lambda x: hypot_p.bind(x, y), x),
    "remat": lambda x, y: jax.checkpoint(lambda x: flip_p.bind(jnp.sin(hypot_p.bind(x, y))))(x),
    "custom_jvp": lambda x, y: tripled(hypot_p.bind(x, y)),
    "custom_vjp": lambda x, y: doubled(hypot_p.bind(x, y)),
    "vmap": lambda x, y: jax.vmap(lambda a: outer_p.bind(x, hypot_p.bind(y, a * x)))(y),
    "jax.jvp inside": lambda x, y: jax.jvp(lambda x: hypot_p.bind(x, y), (x,), (y,)),
    "jax.grad inside": lambda x, y: jax.grad(lambda x: jnp.sum(solve_p.bind(x, y)[0]))(x),
}


def total(function):
    return lambda x, y: sum([jnp.sum(jnp.cos(out) * 1.3) for out in jax.tree.leaves(function(x, y))])


def derivatives(lib, function):
    """Ways to differentiate a function of two vectors."""
    f = total(function)
    gradient = lib.grad(f, (0, 1))
    norm = lambda x, y: sum([jnp.sum(g**2) for g in gradient(x, y)])  # noqa: E731
    return {
        "grad": lambda: gradient(X, Y),
        "the second": lambda: lib.grad(f, 1)(X, Y),
        "jvp": lambda: lib.jvp(function, (X, Y), (Y, X)),
        "partial jvp": lambda: lib.jvp(lambda x: function(x, Y), (X,), (Y,)),
        "grad of grad": lambda: lib.grad(norm, (0, 1))(X, Y),
        "jvp of grad": lambda: lib.jvp(gradient, (X, Y), (Y, X)),
        "grad of jvp": lambda: lib.grad(lambda x: lib.jvp(f, (x, Y), (Y, x))[1])(X),
        "jit": lambda: jax.jit(gradient)(X, Y),
        "vmap": lambda: jax.jit(jax.vmap(gradient))(jnp.stack([X, Y]), jnp.stack([Y, X])),
        "jacrev": lambda: lib.jacrev(function)(X, Y),
        "jacfwd": lambda: lib.jacfwd(function)(X, Y),
        "linearize": lambda: lib.linearize(function, X, Y)[1](Y, X),
        "in a scan": lambda: lax.scan(lambda c, s: (c - 0.1 * lib.grad(f)(c, s), None), X, jnp.stack([Y, Y]))[0],
    }


def same(ours, theirs, rtol=2e-5, atol=2e-6):
    a, b = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


#: for these the ways in which derivatives and JAX's transformations may lie in one another
NESTED = ("defjvp", "several results", "scan")
#: JAX has no forward mode through a function with a rule for reverse mode
BACKWARD = ("grad", "grad of grad", "the second")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_derivative_is_that_of_jax(name):
    ours, theirs = derivatives(fgrad, FUNCTIONS[name]), derivatives(jax, FUNCTIONS[name])
    for way in BACKWARD if name == "custom_vjp" else ours if name in NESTED else ("grad", "jvp", "grad of grad"):
        same(ours[way](), compiled(theirs[way])())


def test_forward_mode_in_a_while_loop():
    loop = lambda x: lax.while_loop(lambda c: jnp.sum(c) < 20, lambda c: c + hypot_p.bind(c, Y), x)  # noqa: E731
    same(fgrad.jvp(loop, (X,), (Y,)), jax.jvp(loop, (X,), (Y,)))


def test_a_linear_function_is_transposed_by_the_rule():
    linear = lambda b: solve_p.bind(Y, flip_p.bind(b))[0]  # noqa: E731
    same(fgrad.linear_transpose(linear, X)(Y), jax.linear_transpose(linear, X)(Y))


def test_values_that_do_not_move_are_zeros_of_jax():
    seen = []
    p = primitive("foreign_told", lambda x, y, z: x * y)

    def jvp(primals, tangents):
        seen.append([type(t) is ad.Zero for t in tangents])
        assert tangents[2].aval.dtype == jax.dtypes.float0
        return p.bind(*primals), tangents[0] * primals[1]

    ad.primitive_jvps[p] = jvp
    f = lambda x: p.bind(x, Y, jnp.arange(3)).sum()  # noqa: E731
    same(fgrad.grad(f)(X), jax.grad(f)(X))
    assert set(map(tuple, seen)) == {(False, True, True)}


def test_results_that_get_no_cotangent_are_zeros_of_jax():
    seen = []
    p = primitive("foreign_pair", lambda x: (2 * x, 3 * x), multiple=True)

    def transpose(cts, x):
        seen.append([type(ct) is ad.Zero for ct in cts])
        return (2 * cts[0],)

    ad.deflinear2(p, lambda cts, x: transpose(cts, x))
    f = lambda x: p.bind(x)[0].sum()  # noqa: E731
    same(fgrad.grad(f)(X), jax.grad(f)(X))
    assert set(map(tuple, seen)) == {(False, True)}


def test_a_zero_tangent_ends_the_derivative():
    p = primitive("foreign_step", jnp.sign)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), ad.Zero(jax.typeof(X).to_tangent_aval()))
    never = primitive("foreign_never", jnp.sin)
    f = lambda x: jnp.sum(never.bind(p.bind(x)) + x)  # noqa: E731
    same(fgrad.grad(f)(X), jnp.ones(3))
    same(jax.grad(f)(X), jnp.ones(3))


def test_a_primitive_with_a_batching_rule_alone():
    p = primitive("foreign_mapped", lambda x: x + 1)
    f = lambda x: jnp.sum(jax.vmap(lambda a: a * lax.stop_gradient(p.bind(a)))(x))  # noqa: E731
    same(fgrad.grad(f)(X), jax.grad(f)(X))


def test_it_gets_arrays_of_jax_where_numpy_computes_its_inputs():
    def impl(x):
        assert isinstance(x, jax.Array)
        return 3 * x

    p = primitive("foreign_array", impl)
    ad.defjvp(p, lambda t, x: p.bind(t))
    ad.primitive_transposes[p] = lambda ct, x: (3 * ct,)
    f = lambda x: jnp.sum(p.bind(2 * x + 1) * p.bind(x / 3)[0])  # noqa: E731
    same(fgrad.value_and_grad(f)(X), jax.value_and_grad(f)(X))


def test_a_rule_given_to_fgrad_comes_first():
    p = primitive("foreign_given", jnp.sin)
    ad.defjvp(p, lambda t, x: 2 * t)
    same(fgrad.grad(p.bind)(1.0), 2.0)
    fgrad.define_rule(p, vjp=lambda ct, out, x: (7 * ct,))
    same(fgrad.grad(p.bind)(1.0), 7.0)


@pytest.mark.parametrize("name", ["sin", "scan", "jit", "mul"])
def test_a_primitive_with_a_name_of_jax_is_not_jax_s(name):
    p = primitive(name, lambda x: x * x + 1)
    ad.defjvp(p, lambda t, x: 10 * t * x)
    f = lambda x: p.bind(x) * 2  # noqa: E731
    for _ in range(3):
        same(fgrad.value_and_grad(f)(3.0), jax.value_and_grad(f)(3.0))
        same(fgrad.jit(fgrad.grad(f))(3.0), 60.0)


def test_jax_s_rules_are_not_read_where_there_is_one_of_ours(monkeypatch):
    """Each primitive of JAX's public namespaces has one of ours; reading JAX's own would fail here."""

    def forbidden(*_, **__):
        raise AssertionError("a rule of JAX was read")

    for table in (ad.primitive_jvps, ad.primitive_transposes):
        for p in [p for p in table if p in RULES or p.name in RULES]:
            monkeypatch.setitem(table, p, forbidden)
    monkeypatch.setattr(foreign, "pushed", forbidden)
    monkeypatch.setattr(foreign, "pulled", forbidden)
    fgrad.clear_cache()

    def f(x, a):
        y = jnp.linalg.cholesky(a @ a.T) @ jnp.sort(x) + jnp.cumsum(jax.nn.softmax(x))
        y = lax.scan(lambda c, s: (jnp.tanh(c * s), jnp.where(s > 0, c, s)), y, x)[1]
        return jnp.sum(jnp.fft.rfft(y).real) + jnp.linalg.norm(a[jnp.argsort(x)]) + jnp.prod(jnp.exp(x))

    a = jnp.eye(3) + jnp.outer(X, Y)
    ours = fgrad.grad(f, (0, 1))(X, a), fgrad.jacfwd(f)(X, a), fgrad.hessian(f)(X, a)
    monkeypatch.undo()
    same(ours, (jax.grad(f, (0, 1))(X, a), jax.jacfwd(f)(X, a), jax.hessian(f)(X, a)), rtol=1e-4, atol=1e-3)


# --------------------------------------------------------------------------------------------------------------------
# errors


def test_without_any_rule_the_primitive_and_the_line_are_named():
    p = primitive("foreign_bare", jnp.sin)
    with pytest.raises(NotImplementedError, match=r"(?s)'foreign_bare'.*primitive_jvps.*define_rule.*test_foreign.py:"):
        fgrad.grad(lambda x: p.bind(x) * 2)(1.0)


def test_without_a_rule_for_transposing_forward_mode_is_named():
    p = primitive("foreign_forward", jnp.sin)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    same(fgrad.jvp(p.bind, (1.0,), (0.5,)), jax.jvp(p.bind, (1.0,), (0.5,)))
    with pytest.raises(NotImplementedError, match=r"(?s)'foreign_forward'.*primitive_transposes.*test_foreign.py:"):
        fgrad.grad(lambda x: p.bind(x) * 2)(1.0)


def test_values_made_in_one_call_with_their_tangents_are_not_transposed():
    p = primitive("foreign_joint", lambda x, t: (jnp.sin(x), jnp.cos(x) * t), multiple=True)
    q = primitive("foreign_kernel", jnp.sin)
    ad.primitive_jvps[q] = lambda primals, tangents: tuple(p.bind(*primals, *tangents))
    same(fgrad.jvp(q.bind, (X,), (Y,)), jax.jvp(q.bind, (X,), (Y,)))
    with pytest.raises(NotImplementedError, match=r"(?s)'foreign_joint'.*test_foreign.py:"):
        fgrad.grad(lambda x: jnp.sum(q.bind(x)))(X)
    with pytest.raises(ValueError, match=r"(?s)'foreign_joint'.*in one call.*fgrad.jvp"):
        fgrad.linearize(q.bind, X)


def test_a_rule_for_transposing_may_refuse():
    a = lambda x: jnp.sum(solve_p.bind(x, Y)[0])  # noqa: E731
    with pytest.raises(ValueError, match=r"(?s)'foreign_solve'.*refuses: AssertionError"):
        fgrad.linear_transpose(a, X)(1.0)


def test_an_error_in_a_rule_names_the_rule_and_the_line():
    p = primitive("foreign_broken", jnp.sin)

    def broken_rule(primals, tangents):
        raise ValueError("no such thing")

    ad.primitive_jvps[p] = broken_rule
    with pytest.raises(ValueError, match="no such thing") as caught:
        fgrad.grad(lambda x: p.bind(x) * 2)(1.0)
    rule, line = caught.value.__notes__
    assert "jvp rule 'broken_rule'" in rule
    assert "'foreign_broken'" in rule
    assert "test_foreign.py" in line


def test_an_error_in_a_transpose_names_the_rule():
    p = primitive("foreign_unturned", lambda x: x)

    def unturned(ct, x):
        raise ValueError("not this way")

    ad.deflinear2(p, unturned)
    with pytest.raises(ValueError, match="not this way") as caught:
        fgrad.grad(lambda x: p.bind(x) * 2)(1.0)
    assert "transpose rule 'unturned'" in caught.value.__notes__[0]


def test_a_tangent_of_another_type_is_refused():
    p = primitive("foreign_wrong", jnp.sin)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), jnp.zeros(4))
    with pytest.raises(TypeError, match=r"(?s)'foreign_wrong' returned a value of type float32\[4\].*test_foreign.py:"):
        fgrad.grad(lambda x: jnp.sum(p.bind(x)))(X)
