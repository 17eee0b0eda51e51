"""Custom rules: fgrad's custom_jvp and custom_vjp, and define_rule."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import fgrad
from fgrad import errors
from tests.api.compare import same

X = jnp.array([0.5, -1.5, 2.0])
FLOAT0 = jax.dtypes.float0


def log1pexp(make):
    """A function whose rule is ten times the truth, so that one sees which was used."""

    @make.custom_jvp
    def f(x):
        return jnp.log1p(jnp.exp(x))

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 10 * jax.nn.sigmoid(x) * t

    return f


def clipped(make):
    """Reverse mode of its own: the cotangent is clipped."""

    @functools.partial(make.custom_vjp, nondiff_argnums=(0,))
    def f(limit, t):
        return {"y": t["x"] ** 2 * t["k"]}

    def fwd(limit, t):
        return f(limit, t), t

    def bwd(limit, t, ct):
        g = jnp.clip(ct["y"], -limit, limit)
        return ({"x": 2 * t["x"] * t["k"] * g, "k": None},)

    f.defvjp(fwd, bwd)
    return lambda x: f(0.5, {"x": x, "k": 3.0})["y"]


MAKERS = {"custom_jvp": log1pexp, "custom_vjp": clipped}


@pytest.mark.parametrize("name", MAKERS)
def test_as_in_jax(name):
    ours, theirs = MAKERS[name](fgrad), MAKERS[name](jax)
    loss = lambda f: lambda x: jnp.sum(jnp.sin(f(x)))  # noqa: E731
    same(ours(X), theirs(X))
    expected, second = jax.grad(loss(theirs))(X), jax.jit(jax.jacrev(jax.grad(loss(theirs))))(X)
    for f in (ours, theirs):
        same(fgrad.grad(loss(f))(X), expected)
        same(fgrad.grad(loss(f))(X), expected)
        same(jax.grad(loss(f))(X), expected)
        same(jax.jit(fgrad.grad(loss(f)))(X), expected)
        same(fgrad.grad(loss(jax.jit(f)))(X), expected)
        same(fgrad.jit(fgrad.grad(loss(f)))(X), expected)
        same(fgrad.grad(loss(jax.vmap(f)))(X), expected)
        same(jax.vmap(fgrad.grad(f))(X), jax.vmap(jax.grad(theirs))(X))
        same(jax.jit(fgrad.jacrev(fgrad.grad(loss(f))))(X), second)
        scanned = lambda x, f=f: jnp.sum(jax.lax.scan(lambda c, a: (f(c * a), c), 0.3, x)[1])  # noqa: E731
        same(fgrad.grad(scanned)(X), jax.grad(scanned)(X))


def test_forward_mode():
    f = log1pexp(fgrad)
    same(fgrad.jvp(f, (X,), (X,)), jax.jvp(f, (X,), (X,)))
    same(fgrad.linearize(f, X)[1](X), jax.jvp(f, (X,), (X,))[1])
    # JAX refuses forward mode of a custom_vjp; here it is the transpose of the rule
    g = clipped(fgrad)
    with pytest.raises(TypeError):
        jax.jvp(g, (X,), (X,))
    linear = lambda f: f.defvjp(lambda x: (f(x), x), lambda x, ct: (10 * x * ct,)) or f  # noqa: E731
    h = linear(fgrad.custom_vjp(lambda x: x**2))
    same(fgrad.jvp(h, (X,), (jnp.ones(3),))[1], 10 * X)


def test_defjvps():
    def make(lib):
        @lib.custom_jvp
        def f(x, y, n):
            return {"p": jnp.sin(x) * y, "n": n}

        f.defjvps(lambda t, out, x, y, n: {"p": 10 * t * y, "n": _zero(n)}, None, lambda t, out, x, y, n: _zeros(out))
        return lambda x, y: f(x, y, 2)["p"].sum()

    def _zero(n):
        return np.zeros(jnp.shape(n), FLOAT0)

    def _zeros(out):
        return {"p": jnp.zeros_like(out["p"]), "n": _zero(out["n"])}

    same(fgrad.grad(make(fgrad), (0, 1))(X, X), (10 * X, jnp.zeros(3)))
    f = fgrad.custom_jvp(lambda x: x)
    f.defjvps(None)
    same(fgrad.grad(lambda x: f(x) * x)(3.0), jnp.array(3.0), weak=False)
    f = fgrad.custom_jvp(lambda x, y: x)
    f.defjvps(None)
    with pytest.raises(TypeError, match="given 1 rules by defjvps and called with 2"):
        fgrad.grad(f)(1.0, 2.0)
    with pytest.raises(TypeError, match="nondiff_argnums"):
        fgrad.custom_jvp(lambda x, n: x, nondiff_argnums=(1,)).defjvps(None)


def test_nondiff_names_and_keywords():
    def make(lib):
        @functools.partial(lib.custom_jvp, nondiff_argnames=("mode",))
        def f(x, mode):
            return {"sin": jnp.sin, "cos": jnp.cos}[mode](x)

        @f.defjvp
        def rule(mode, primals, tangents):
            return f(primals[0], mode), 7.0 * tangents[0]

        return lambda x: f(mode="sin", x=x).sum()

    same(fgrad.grad(make(fgrad))(X), jax.grad(make(jax))(X))
    same(jax.grad(make(fgrad))(X), jax.grad(make(jax))(X))


def test_symbolic_zeros():
    def jvp_of(lib):
        @lib.custom_jvp
        def f(x, y):
            return x * y

        def rule(primals, tangents):
            x, y = primals
            terms = [t * 5 for t in tangents if not isinstance(t, jax.custom_derivatives.SymbolicZero)]
            return f(x, y), sum(terms)

        f.defjvp(rule, symbolic_zeros=True)
        return lambda x: f(x, 2.0).sum()

    same(fgrad.grad(jvp_of(fgrad))(X), jax.grad(jvp_of(jax))(X))

    def vjp_of(lib):
        @lib.custom_vjp
        def f(x, y):
            return x * y, y

        def fwd(x, y):
            return f(x.value, y.value), (x.value, y.value)

        def bwd(res, cts):
            g = cts[0]
            g = jnp.zeros(3) if isinstance(g, jax.custom_derivatives.SymbolicZero) else g
            return g * 5, None

        f.defvjp(fwd, bwd, symbolic_zeros=True)
        return lambda x: f(x, jnp.ones(3))[0].sum()

    same(fgrad.grad(vjp_of(fgrad))(X), jax.grad(vjp_of(jax))(X))
    f = fgrad.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (3 * ct,), optimize_remat=True)
    assert fgrad.grad(f)(1.0) == 3.0


def test_names_and_attributes():
    f = log1pexp(fgrad)
    assert f.__name__ == "f" and callable(f.jvp) and f.fun(0.0) is not None


def test_values_stay_concrete_in_the_function():
    @fgrad.custom_vjp
    def f(x):
        return x * 2 if x > 0 else x

    f.defvjp(lambda x: (jnp.where(x > 0, x * 2, x), None), lambda _, ct: (ct * 3,))
    assert fgrad.grad(f)(1.0) == 3.0


def test_missing_rules():
    for make, how in ((fgrad.custom_jvp, "defjvp"), (fgrad.custom_vjp, r"defvjp\(fwd, bwd\)")):
        f = make(lambda x: x)
        with pytest.raises(errors.MissingCustomRuleError, match=f"'<lambda>' has no rule yet.*{how}"):
            f(1.0)
        with pytest.raises(AttributeError):  # what JAX raises
            f(1.0)


@pytest.mark.parametrize("d", [fgrad.grad, jax.grad, lambda f: jax.jit(fgrad.grad(f))], ids=["fgrad", "jax", "jit"])
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda p, t: t[0], r"expected: a pair .output, tangent.*got: *an array"),
        (lambda p, t: ({"y": p[0]}, (t[0],)), r"at the tangent output.*expected: the output's structure.*'y'"),
        (
            lambda p, t: ({"y": p[0]}, {"y": t[0][:2]}),
            r"'f' .* at tangent\['y'\].*expected: float32\[3\].*got: *float32\[2\]",
        ),
        (lambda p, t: ({"y": p[0]}, {"y": t[0].astype(jnp.float16)}), r"at tangent\['y'\].*got: *float16\[3\]"),
    ],
)
def test_wrong_jvp_rules(d, rule, said):
    @fgrad.custom_jvp
    def f(x):
        return {"y": x}

    f.defjvp(rule)
    with pytest.raises(errors.RuleTypeError, match="(?s)" + said):
        d(lambda x: f(x)["y"].sum())(X)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: lambda t: jax.lax.map(f, t)], ids=["", "jit", "map"])
@pytest.mark.parametrize(
    "tangent", [lambda t: (t > 0) * 1.0, lambda t: t + jnp.sign(t), jnp.ceil], ids=["compared", "sign", "rounded"]
)
def test_a_tangent_that_jumps_has_no_reverse_mode(wrap, tangent):
    """A tangent rule has to be linear in the tangents; forward mode takes it at its word."""

    @fgrad.custom_jvp
    def f(x):
        return x

    f.defjvp(lambda p, t: (p[0], wrap(tangent)(t[0])))
    same(fgrad.jvp(f, (X,), (X,))[1], tangent(X))
    for library in (fgrad, jax):
        with pytest.raises(NotImplementedError if library is jax else errors.NotLinearError):
            library.grad(lambda x: f(x).sum())(X)


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jax.jit, lambda f: lambda x: jax.lax.map(f, x[None])], ids=["", "jit", "map"]
)
@pytest.mark.parametrize(
    "bwd", [jnp.sign, lambda g: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: 2 * c, g)], ids=["jumps", "loops"]
)
def test_forward_mode_of_a_backward_pass_that_has_no_transpose(bwd, wrap):
    @jax.custom_vjp
    def f(x):
        return jnp.exp(x)

    f.defvjp(lambda x: (jnp.exp(x), x), lambda x, g: (x * bwd(g),))
    with pytest.raises(TypeError, match="'f' cannot be differentiated.*forward mode of a custom_vjp.*reverse mode"):
        fgrad.jvp(wrap(f), (X,), (X,))


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jax.jit, jax.checkpoint, lambda f: lambda x: jax.lax.map(f, x[None])[0]],
    ids=["", "jit", "remat", "map"],
)  # fmt: skip
@pytest.mark.parametrize("jit", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
def test_linearizing_where_a_backward_pass_has_no_transpose(wrap, jit):
    """As in JAX, the linear function can be transposed, but not called."""

    @jax.custom_vjp
    def f(x):
        return jnp.exp(x)

    f.defvjp(lambda x: (jnp.exp(x), x), lambda x, g: (x * jnp.sign(g),))

    def pulled_back(library, x):
        out, linear = library.linearize(lambda x: jnp.sin(wrap(f)(x) * x), x)
        return out, library.linear_transpose(linear, x)(3.0 * x)

    def pushed_forward(library, x):
        return library.linearize(wrap(f), x)[1](x)

    same(jit(lambda x: pulled_back(fgrad, x))(X), jax.jit(lambda x: pulled_back(jax, x))(X))
    for library in (fgrad, jax):
        with pytest.raises(TypeError, match="custom_vjp"):
            jit(lambda x, library=library: pushed_forward(library, x))(X)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: lambda t: jax.lax.map(f, t)], ids=["", "jit", "map"])
def test_a_transpose_is_one_of_the_function(wrap):
    """A rule says what the derivative of a linear function is; what its transpose is, the function says."""

    @jax.custom_jvp
    def f(x):
        return 2.0 * x

    f.defjvp(lambda p, t: (f(*p), 10.0 * t[0]))

    @jax.custom_jvp
    def g(x):
        return 2.0 * x

    g.defjvp(lambda p, t: (g(*p), wrap(g)(t[0])))
    for library in (fgrad, jax):
        (found,) = library.linear_transpose(wrap(f), X)(X)
        same(found, 2.0 * X)
        same(library.grad(lambda x: jnp.sum(g(x) ** 2))(X), 8.0 * X)
    stated = fgrad.define_rule(lambda x: jnp.round(x), transpose=lambda ct, x: (10.0 * ct,))
    same(fgrad.linear_transpose(wrap(stated), X)(X), (10.0 * X,))


@pytest.mark.parametrize("d", [fgrad.grad, jax.grad, lambda f: jax.jit(fgrad.grad(f))], ids=["fgrad", "jax", "jit"])
@pytest.mark.parametrize(
    ("bwd", "said"),
    [
        (lambda res, ct: ct, r"at output.*a tuple with one cotangent for each of 2 arguments.*got: *an array"),
        (lambda res, ct: (None,), r"each of 2 arguments.*a tuple of length 1"),
        (
            lambda res, ct: ({"w": ct[:2]}, None),
            r"'f' .* at output\[0\]\['w'\].*expected: float32\[3\].*got: *float32\[2\]",
        ),
        (lambda res, ct: ({"w": ct.astype(jnp.complex64)}, None), r"at output\[0\]\['w'\].*got: *complex64\[3\]"),
        (lambda res, ct: ({"v": ct}, None), r"expected: .*'w'.*got: .*'v'"),
        (lambda res, ct: (ct[:2], None), r"at output\[0\]\['w'\].*expected: float32\[3\].*got: *float32\[2\]"),
    ],
)
def test_wrong_vjp_rules(d, bwd, said):
    @fgrad.custom_vjp
    def f(p, n):
        return p["w"] * n

    f.defvjp(lambda p, n: (f(p, n), None), bwd)
    with pytest.raises(errors.RuleTypeError, match="(?s)" + said):
        d(lambda x: f({"w": x}, 2).sum())(X)


def test_a_cotangent_of_a_subtree_is_that_of_each_leaf():
    def gradient(lib):
        f = lib.custom_vjp(lambda p, y: p["u"] * p["v"][0] * y)
        f.defvjp(lambda p, y: (f(p, y), None), lambda res, ct: (2.0 * ct, None))
        return lib.grad(f, allow_int=True)({"u": X[0], "v": (X[1], jnp.int32(1))}, X[2])

    same(gradient(fgrad), gradient(jax))


def test_wrong_fwd():
    f = fgrad.custom_vjp(lambda x: x)
    f.defvjp(lambda x: x, lambda res, ct: (ct,))
    with pytest.raises(errors.RuleTypeError, match=r"(?s)fwd rule.*a pair \(output, residuals\)"):
        fgrad.grad(f)(1.0)
    f.defvjp(lambda x: (jnp.ones(2), x), lambda res, ct: (ct,))
    with pytest.raises(TypeError):
        fgrad.grad(lambda x: jnp.sum(f(x)))(1.0)


# -- define_rule: functions -------------------------------------------------------------------------------------------


def traced(log, name, value):
    log.append(name)
    return value


def product(log, *modes):
    rules = {
        "vjp": lambda ct, out, x, y: traced(log, "vjp", (ct * jnp.cos(x) * y, ct * jnp.sin(x))),
        "jvp": lambda t, out, x, y: traced(log, "jvp", t[0] * jnp.cos(x) * y + t[1] * jnp.sin(x)),
        "batching": lambda size, mapped, x, y: traced(log, "batching", (jnp.sin(x) * y, True)),
    }
    return fgrad.define_rule(lambda x, y: jnp.sin(x) * y, **{name: rules[name] for name in modes})


plain = lambda x, y: jnp.sin(x) * y  # noqa: E731


@pytest.mark.parametrize("modes", [("vjp",), ("jvp",), ("vjp", "jvp"), ("vjp", "jvp", "batching"), ("batching",)])
def test_any_rules_of_a_function(modes):
    log = []
    f = product(log, *modes)
    args = (1.0, 2.0)
    gradient, tangent = jax.grad(plain, (0, 1))(*args), jax.jvp(plain, args, (1.0, 3.0))
    fgrad.clear_cache()
    same(f(*args), plain(*args))
    assert log == []
    same(fgrad.grad(f, (0, 1))(*args), gradient)
    assert set(log) == ({"vjp"} if "vjp" in modes else {"jvp"} if "jvp" in modes else set())
    log.clear()
    fgrad.clear_cache()
    same(fgrad.jvp(f, args, (1.0, 3.0)), tangent)
    assert set(log) == ({"jvp"} if "jvp" in modes else {"vjp"} if "vjp" in modes else set())
    log.clear()
    rows = jnp.stack([X, X])
    same(jax.vmap(f)(rows, rows), jnp.sin(rows) * rows)
    assert ("batching" in log) == ("batching" in modes)
    same(jax.vmap(fgrad.grad(f))(X, X), jnp.cos(X) * X)
    same(fgrad.grad(lambda x: jax.vmap(f, (0, None))(x, 2.0).sum())(X), 2 * jnp.cos(X))
    same(fgrad.grad(jax.jit(f), (0, 1))(*args), gradient)
    same(jax.jit(fgrad.grad(f, (0, 1)))(*args), gradient)
    same(fgrad.grad(fgrad.grad(f))(*args), jax.grad(jax.grad(plain))(*args))
    same(fgrad.grad(lambda x: fgrad.jvp(lambda z: f(z, x), (x,), (x,))[1])(1.0),
         jax.grad(lambda x: jax.jvp(lambda z: plain(z, x), (x,), (x,))[1])(1.0))  # fmt: skip
    if modes != ("batching",):
        same(jax.grad(f, (0, 1))(*args), gradient)
    fgrad.check_rule(f, *args)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.vmap, lambda f: jax.vmap(jax.jit(f))])
def test_with_both_rules_reverse_mode_takes_the_one_for_it(wrap):
    log = []
    f = wrap(product(log, "vjp", "jvp"))
    fgrad.clear_cache()
    same(fgrad.grad(lambda x: f(x, x).sum())(X), jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))(X))
    assert set(log) == {"vjp"}


def with_rules(lib, order):
    """A function with a rule for one mode that only calls one with a rule for the other; the slopes are 10 and 2."""
    f = lambda x: jnp.sin(x)  # noqa: E731
    for kind in order:
        body = f
        if kind == "vjp":
            f = lib.custom_vjp(body)
            f.defvjp(lambda x, body=body: (body(x), x), lambda x, ct: (2 * ct,))
        else:
            f = lib.custom_jvp(body)
            f.defjvp(lambda p, t, body=body: (body(*p), 10 * t[0]))
    return f


@pytest.mark.parametrize("make", [fgrad, jax])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.vmap, lambda f: jax.vmap(jax.jit(f)), fgrad.checkpoint])
@pytest.mark.parametrize("order", [("vjp", "jvp"), ("vjp", "vjp", "jvp"), ("jvp", "vjp"), ("vjp", "jvp", "vjp", "jvp")])
def test_the_outer_one_of_two_rules_counts(make, wrap, order):
    slopes = jnp.full(3, 10.0 if order[-1] == "jvp" else 2.0, jnp.float32)
    f = wrap(with_rules(make, order))
    same(fgrad.grad(lambda x: f(x).sum())(X), slopes)
    same(fgrad.jit(fgrad.grad(lambda x: f(x).sum()))(X), slopes)
    same(fgrad.jvp(f, (X,), (jnp.ones(3),))[1], slopes)


def test_a_linear_function():
    log = []
    f = fgrad.define_rule(
        lambda t, n: {"o": 2 * t[0] - n * t[1]},
        transpose=lambda ct, t, n: traced(log, "transpose", ((2 * ct["o"], -n * ct["o"]), None)),
        check=((1.0, 2.0), 3),
    )
    plain = lambda t: 2 * t[0] - 3 * t[1]  # noqa: E731
    log.clear()
    same(fgrad.grad(lambda t: f(t, 3)["o"])((1.0, 2.0)), jax.grad(plain)((1.0, 2.0)))
    assert log == ["transpose"]
    same(fgrad.jvp(lambda t: f(t, 3)["o"], ((1.0, 2.0),), ((1.0, 1.0),)), jax.jvp(plain, ((1.0, 2.0),), ((1.0, 1.0),)))
    same(jax.grad(lambda t: f(t, n=3)["o"])((1.0, 2.0)), jax.grad(plain)((1.0, 2.0)))
    square = lambda x: f((x, x), 3)["o"] ** 2  # noqa: E731
    assert fgrad.grad(fgrad.grad(square))(1.0) == 2.0


def test_linear_in_some_arguments():
    f = fgrad.define_rule(lambda w, x: w**2 * x, transpose=lambda ct, w, x: (None, ct * w**2), linear_args=(1,))
    assert fgrad.grad(f, 1)(3.0, 2.0) == 9.0
    assert fgrad.jvp(f, (3.0, 2.0), (0.0, 1.0))[1] == 9.0
    fgrad.check_rule(fgrad.define_rule(lambda x: 3 * x, transpose=lambda ct, x: (3 * ct,)), X)


def test_integers_and_zeros():
    f = fgrad.define_rule(
        lambda x, n: (x * n, n + 1), jvp=lambda t, out, x, n: (None if t[1] is not None else t[0] * n, None)
    )
    same(
        fgrad.jvp(lambda x: f(x, jnp.arange(3)), (X,), (X,)),
        jax.jvp(lambda x: (x * jnp.arange(3), jnp.arange(3) + 1), (X,), (X,)),
    )
    g = fgrad.define_rule(lambda x: jnp.round(x), vjp=lambda ct, out, x: (ct,))
    same(fgrad.grad(lambda x: g(x).sum())(X), jnp.ones(3))
    h = fgrad.define_rule(lambda x: x * 1.0, jvp=lambda t, out, x: None)
    same(fgrad.grad(lambda x: h(x).sum())(X), jnp.zeros(3))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"vjp": lambda ct, out, x: (ct * x,)}, "vjp rule of '<lambda>' disagrees with finite differences"),
        ({"jvp": lambda t, out, x: t[0] * x}, "jvp rule of '<lambda>' disagrees with finite differences"),
        ({"transpose": lambda ct, x: (ct,)}, "transpose rule.*disagrees with linearity"),
        ({"batching": lambda size, mapped, x: (x, True)}, r"batching rule.*one by one \(argument 0 mapped\)"),
        ({"vjp": lambda ct, out, x: (2 * x * ct,), "jvp": lambda t, out, x: 3 * x * t[0]}, "jvp rule.*disagrees"),
    ],
)
def test_checks_find_wrong_rules(rules, said):
    with pytest.raises(errors.RuleCheckError, match="(?s)" + said):
        fgrad.define_rule(lambda x: x**2, check=(X,), **rules)
    assert callable(fgrad.define_rule(lambda x: x**2, **rules))


def test_checks_pass_right_rules():
    fgrad.define_rule(
        lambda x, n: {"y": x["a"] * n},
        vjp=lambda ct, out, x, n: ({"a": ct["y"] * n}, None),
        jvp=lambda t, out, x, n: {"y": t[0]["a"] * n},
        batching=lambda size, mapped, x, n: (
            {"y": jax.vmap(lambda a, k: a * k, (0 if mapped[0]["a"] else None, 0 if mapped[1] else None))(x["a"], n)},
            {"y": True},
        ),
        check=({"a": X}, 3),
    )
    z = jnp.array([1 + 2j, 0.5 - 1j])
    fgrad.define_rule(
        lambda z: z**2, vjp=lambda ct, out, z: (2 * z * ct,), jvp=lambda t, out, z: 2 * z * t[0], check=(z,)
    )


def test_bad_definitions():
    with pytest.raises(ValueError, match="at least one of"):
        fgrad.define_rule(jnp.sin)
    with pytest.raises(TypeError, match="a primitive, its name, or a function"):
        fgrad.define_rule(3, vjp=lambda ct: ct)
    with pytest.raises(ValueError, match="no primitive named 'nonesuch'"):
        fgrad.define_rule("nonesuch", vjp=lambda ct: ct)
    with pytest.raises(ValueError, match="'sin' has a rule already"):
        fgrad.define_rule("sin", vjp=lambda ct, out, x: (ct,))
    with pytest.raises(ValueError, match="no rule from define_rule"):
        fgrad.check_rule(jnp.sin, 1.0)
    with pytest.raises(errors.RuleTypeError, match="vjp|bwd"):
        fgrad.grad(fgrad.define_rule(lambda x: x, vjp=lambda ct, out, x: (jnp.ones(3),)))(1.0)


# -- define_rule: primitives ------------------------------------------------------------------------------------------


def new_primitive(name, function, multiple=False):
    prim = Primitive(name)
    prim.multiple_results = multiple
    prim.def_impl(function)

    def abstract(*args, **params):
        out = jax.eval_shape(
            lambda *xs: function(*xs, **params), *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args)
        )
        avals = [jax.core.ShapedArray(o.shape, o.dtype) for o in (out if multiple else [out])]
        return avals if multiple else avals[0]

    prim.def_abstract_eval(abstract)
    return prim


@pytest.mark.parametrize("mode", ["jvp", "vjp", "both"])
def test_a_primitive(mode):
    prim = new_primitive(f"scaled_sin_{mode}", lambda x, y, *, k: jnp.sin(k * x) * y)
    f = lambda x, y: prim.bind(x, y, k=2.0)  # noqa: E731
    plain = lambda x, y: jnp.sin(2.0 * x) * y  # noqa: E731
    with pytest.raises(errors.MissingRuleError, match=f"(?s)'scaled_sin_{mode}' has no derivative rule.*define_rule"):
        fgrad.grad(f)(1.0, 2.0)
    rules = {
        "vjp": lambda ct, out, x, y, k: (ct * k * jnp.cos(k * x) * y, ct * jnp.sin(k * x)),
        "jvp": lambda t, out, x, y, k: _sum(
            None if t[0] is None else t[0] * k * jnp.cos(k * x) * y, None if t[1] is None else t[1] * jnp.sin(k * x)
        ),
    }
    assert fgrad.define_rule(prim, **(rules if mode == "both" else {mode: rules[mode]})) is prim
    args = (jnp.float32(1.0), jnp.float32(2.0))
    same(fgrad.grad(f, (0, 1))(*args), jax.grad(plain, (0, 1))(*args))
    same(fgrad.grad(f)(*args), jax.grad(plain)(*args))
    same(fgrad.jvp(f, args, args), jax.jvp(plain, args, args))
    same(fgrad.grad(fgrad.grad(f))(*args), jax.grad(jax.grad(plain))(*args))
    fgrad.check_rule(prim, 1.0, 2.0, k=3.0)
    fgrad.check_rule(prim.name, 1.0, 2.0, k=3.0)


def _sum(a, b):
    return b if a is None else a if b is None else a + b


def test_a_linear_primitive():
    prim = new_primitive("double_and_roll", lambda x: [2 * x, jnp.roll(x, 1)], multiple=True)
    fgrad.define_rule(prim, transpose=lambda cts, x: (2 * cts[0] + jnp.roll(cts[1], -1),), check=(X,))
    f = lambda x: prim.bind(x)  # noqa: E731
    plain = lambda x: [2 * x, jnp.roll(x, 1)]  # noqa: E731
    same(fgrad.vjp(f, X)[1]([X, X + 1]), jax.vjp(plain, X)[1]([X, X + 1]))
    same(fgrad.jvp(f, (X,), (X,)), jax.jvp(plain, (X,), (X,)))
    same(fgrad.linear_transpose(f, X)([X, X + 1]), jax.linear_transpose(plain, X)([X, X + 1]))


def test_rules_of_primitives_are_replaced_on_request():
    prim = new_primitive("replaced", lambda x: x**2)
    fgrad.define_rule(prim, vjp=lambda ct, out, x: (ct,))
    assert fgrad.grad(prim.bind)(3.0) == 1.0
    with pytest.raises(errors.RuleCheckError, match="vjp rule of 'replaced'"):
        fgrad.check_rule(prim, 3.0)
    with pytest.raises(ValueError, match=r"'replaced' has a rule already.*\n.*replace=True"):
        fgrad.define_rule(prim, vjp=lambda ct, out, x: (2 * x * ct,))
    fgrad.define_rule(prim, vjp=lambda ct, out, x: (2 * x * ct,), replace=True, check=(3.0,))
    assert fgrad.grad(prim.bind)(3.0) == 6.0


# -- symbolic zeros --------------------------------------------------------------------------------------------------

SymbolicZero = jax.custom_derivatives.SymbolicZero
WRAPPERS = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["as it is", "jit"])


def product_with_zeros(api, wrap):
    """``x * y`` and an integer, with a rule that is told of zero tangents; and what it was told."""
    told = set()

    @api.custom_jvp
    def f(x, y, n):
        return x * y

    def rule(primals, tangents):
        told.add(tuple(type(t) is SymbolicZero for t in tangents))
        (x, y, _), (tx, ty, _) = primals, tangents
        terms = [t * other for t, other in ((tx, y), (ty, x)) if type(t) is not SymbolicZero]
        return x * y, sum(terms) if terms else SymbolicZero(jax.typeof(x))

    f.defjvp(rule, symbolic_zeros=True)
    return wrap(lambda x, y: f(x, y, 3)), told


@WRAPPERS
def test_a_jvp_rule_is_told_of_zeros(wrap):
    def outcome(api):
        f, told = product_with_zeros(api, wrap)
        found = [
            api.jvp(lambda x: f(x, 2.0), (3.0,), (1.0,)),
            api.grad(lambda y: f(2.0, y))(3.0),
            api.grad(f, (0, 1))(3.0, 2.0),
        ]
        return jax.tree.map(float, found), told

    assert outcome(fgrad) == outcome(jax)


@WRAPPERS
def test_a_vjp_rule_is_told_what_is_perturbed_and_which_cotangents_are_zero(wrap):
    def outcome(api):
        told = []

        @api.custom_vjp
        def f(x, y):
            return x * 2, y * 3

        def fwd(x, y):
            told.append((x.perturbed, y.perturbed))
            return (x.value * 2, y.value * 3), None

        def bwd(_, cts):
            told.append([type(ct) is SymbolicZero for ct in cts])
            return tuple(None if type(ct) is SymbolicZero else ct * 5 for ct in cts)

        f.defvjp(fwd, bwd, symbolic_zeros=True)
        g = wrap(f)
        found = []
        for argnums, output in ((0, 0), (1, 1), ((0, 1), 0)):
            found.append(api.grad(lambda x, y, output=output: g(x, y)[output], argnums)(2.0, 3.0))
        return jax.tree.map(float, found), told[-2:]

    assert outcome(fgrad) == outcome(jax)


@pytest.mark.parametrize("custom_vjp", [jax.custom_vjp, fgrad.custom_vjp])
def test_what_gets_no_cotangent_need_not_have_a_derivative(custom_vjp):
    def power(x):
        return jax.lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * x, c[1] + 1), (x, 0))[0]

    f = custom_vjp(lambda x, y: x * 2 + y)
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (ct * 2, None))
    # JAX refuses the loop unless it is jitted
    assert jax.grad(lambda x: f(x, jax.jit(power)(x)))(2.0) == 2
    assert fgrad.grad(lambda x: f(x, jax.jit(power)(x)))(2.0) == 2
    assert fgrad.grad(lambda x: f(x, power(x)))(2.0) == 2
    assert fgrad.jit(fgrad.grad(lambda x: f(x, power(x))))(2.0) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, fgrad.jit], ids=["plain", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize("ct", [3.0, 3, np.float64(3.0), jnp.float32(3.0)], ids=["float", "int", "NumPy", "float32"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.complex64])
@pytest.mark.parametrize("custom_vjp", [jax.custom_vjp, fgrad.custom_vjp])
def test_a_backward_rule_may_give_a_cotangent_of_another_precision(custom_vjp, dtype, ct, wrap):
    f = custom_vjp(lambda x: 2 * x)
    f.defvjp(lambda x: (2 * x, None), lambda _, g: (ct,))
    x = dtype(1.0)
    same(wrap(fgrad.vjp(f, x)[1])(x), (dtype(3.0),))


@pytest.mark.parametrize("custom_vjp", [jax.custom_vjp, fgrad.custom_vjp])
def test_a_backward_rule_may_not_give_an_imaginary_cotangent_of_a_real_number(custom_vjp):
    f = custom_vjp(lambda x: 2 * x)
    f.defvjp(lambda x: (2 * x, None), lambda _, g: (3j,))
    with pytest.raises(errors.RuleTypeError):
        fgrad.grad(f)(1.0)


def _shifted(symbolic_zeros):
    """Twice its argument; its rule adds 5 to the cotangent."""

    @jax.custom_vjp
    def shifted(x):
        return 2 * x

    def bwd(_, ct):
        return (5.0 if type(ct) is jax.custom_derivatives.SymbolicZero else ct + 5.0,)

    fwd = (lambda x: (2 * x.value, None)) if symbolic_zeros else lambda x: (2 * x, None)
    shifted.defvjp(fwd, bwd, symbolic_zeros=symbolic_zeros)
    return shifted


_cut = jax.custom_vjp(lambda x: 3 * x)
_cut.defvjp(lambda x: (3 * x, None), lambda _, ct: (None,))


@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        lambda f, x: _cut(f(x)),
        lambda f, x: jnp.sin(_cut(jnp.sin(f(x)) * x)) + x,
        lambda f, x: _cut(f(x)) + f(x) * x,
        lambda f, x: jax.lax.scan(lambda c, _: (_cut(f(c)), None), x, None, length=2)[0] + x,
        lambda f, x: jax.lax.cond(x > 0, lambda x: _cut(f(x)), lambda x: x, x),
        lambda f, x: jax.lax.stop_gradient(f(x)) + x,
        lambda f, x: _cut(jnp.round(f(x)) * x) + x,
        lambda f, x: (f(x), _cut(x))[1] + x,
    ],
)
def test_a_rule_is_called_with_zeros_where_another_rule_gives_none(use, symbolic_zeros):
    f = _shifted(symbolic_zeros)
    wanted = jax.grad(lambda x: use(f, x))(1.5)
    for wrap in (lambda g: g, jax.jit, fgrad.jit):
        same(wrap(fgrad.grad(lambda x: use(f, x)))(1.5), wanted)


def summed_over_axis(api, kind):
    """A function whose rule asks for a named axis."""
    if kind == "jvp":
        f = api.custom_jvp(lambda x: 2 * x)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * jax.lax.axis_index("i")))
        return f
    f = api.custom_vjp(lambda x: 2 * x)
    if kind == "vjp":
        f.defvjp(lambda x: (2 * x, x), lambda x, ct: (jax.lax.psum(ct, "i") * x,))
    else:
        f.defvjp(
            lambda x: (2 * x.value, x.value), lambda x, ct: (jax.lax.psum(ct, "i") * x,), symbolic_zeros=True,
        )  # fmt: skip
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp", "symbolic zeros"])
@pytest.mark.parametrize("region", ["checkpoint", "jit", "cond", "scan"])
def test_a_rule_in_a_region_asks_for_an_axis_of_vmap(kind, region):
    """The region's rule is recorded when the derivative is taken, after ``vmap`` has returned."""

    def gradient(api):
        f = summed_over_axis(api, kind)
        within = {
            "checkpoint": api.checkpoint(f),
            "jit": api.jit(f),
            "cond": lambda x: jax.lax.cond(True, f, jnp.sin, x),
            "scan": lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
        }[region]
        return api.grad(lambda xs: jnp.sum(api.vmap(within, axis_name="i")(xs) ** 2))

    xs = jnp.array([0.5, -1.5, 2.0])
    same(gradient(fgrad)(xs), gradient(jax)(xs))
    same(fgrad.jit(gradient(fgrad))(xs), gradient(jax)(xs))


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("output", [lambda x: jnp.zeros_like(x), lambda x: jnp.ones(2)])
def test_outputs_that_are_the_same_for_all_examples(depth, output):
    """Their tangents are not, so that under ``jax.vmap`` the rule gives outputs of another shape than the function."""

    def mapped(library):
        f = library.custom_jvp(output)
        f.defjvp(lambda primals, tangents: (f(*primals), output(*primals) * 0 + 3.0 * tangents[0] * primals[0]))
        return jax.vmap(jax.vmap(f)) if depth == 2 else jax.vmap(f)

    x = jnp.arange(1.0, 7.0).reshape((2, 3) if depth == 2 else 6)
    for _ in range(2):  # a rule that was recorded once is known
        same(fgrad.jvp(mapped(fgrad), (x,), (x,)), jax.jvp(mapped(jax), (x,), (x,)))
        ours, theirs = (lambda x: jnp.sum(jnp.cos(mapped(fgrad)(x)))), (lambda x: jnp.sum(jnp.cos(mapped(jax)(x))))
        same(fgrad.grad(ours)(x), jax.grad(theirs)(x))
        same(fgrad.jit(fgrad.grad(ours))(x), jax.jit(jax.grad(theirs))(x))
