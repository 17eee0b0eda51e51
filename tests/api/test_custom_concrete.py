"""Custom rules that ask for numbers: un-jitted they get them where JAX gives them, staged they are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import concrete_or_error

import fgrad
from fgrad import errors


def branching_vjp(library, nondiff=()):
    """A function whose fwd branches on its argument, and whose bwd on residuals' structure, numbers and cotangents."""

    @library.custom_vjp
    def f(x, n):
        return jnp.sin(x) if x > 0 else jnp.cos(x)

    def fwd(x, n):
        return (jnp.sin(x), (x,)) if x > 0 else (jnp.cos(x), {"a": x, "b": 2 * x})

    def bwd(residuals, ct):
        if isinstance(residuals, dict):
            return -3 * ct * jnp.sin(residuals["a"]), None
        if ct > 1:
            return 5 * ct * jnp.cos(residuals[0]), None
        return (7 if residuals[0] > 2 else 1) * ct * jnp.cos(residuals[0]), None

    f.defvjp(fwd, bwd)
    return lambda x: f(x, 2)


def branching_bwd(library):
    """Only the backward rule asks."""

    @library.custom_vjp
    def f(x):
        return {"y": jnp.sum(x**2), "z": x}

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct["y"] * (2 * x if x.max() > 1 else x) + ct["z"],))
    return lambda x: f(x * jnp.ones(2))["y"] + f(x * jnp.ones(2))["z"][0]


def branching_jvp(library):
    @library.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), (3 if x > 0 else 1) * jnp.cos(x) * t

    return f


MAKERS = [branching_vjp, branching_bwd, branching_jvp]
POINTS = (0.5, -0.5, 2.5, 0.5)


def programs(f, api):
    yield "grad", lambda x: api.grad(f)(x)
    yield "grad of more", lambda x: api.grad(lambda x: f(x) * f(-x) + f(f(3 * x)))(x)
    yield "value_and_grad", lambda x: api.value_and_grad(f)(x)
    yield "vjp", lambda x: [api.vjp(f, x)[1](ct) for ct in (0.5, 2.0)]
    yield "second order", lambda x: api.grad(api.grad(lambda x: x * f(x)))(x)


def forward_programs(f, api):
    yield "jvp", lambda x: api.jvp(f, (x,), (2.0,))
    yield "linearize", lambda x: api.linearize(f, x)[1](2.0)
    yield "hessian", lambda x: api.hessian(f)(x)


@pytest.mark.slow
@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("maker", MAKERS)
def test_rules_get_numbers(maker, library):
    kinds = [programs, forward_programs] if maker is branching_jvp else [programs]
    for kind in kinds:
        ours, theirs = kind(maker(library), fgrad), kind(maker(jax), jax)
        for (name, a), (_, b) in zip(ours, theirs, strict=True):
            for x in POINTS:
                for p, q in zip(jax.tree.leaves(a(x)), jax.tree.leaves(b(x)), strict=True):
                    np.testing.assert_allclose(p, q, rtol=1e-5, err_msg=f"{name} at {x}")


def calls_itself_jvp(library):
    """The rule calls its own function where it is, and elsewhere."""

    @library.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 3 * t * f(x) if x > 0 else f(-x) * t

    return f


def calls_itself_vjp(library):
    """The forward rule calls its own function in one branch, the backward rule in both."""

    @library.custom_vjp
    def f(x):
        return x**2

    def bwd(x, ct):
        return (ct * f(x + 1) if x > 0.3 else -ct * f(x),)

    f.defvjp(lambda x: (4 * f(x / 2), x) if x > 1 else (x**2, 3 * x), bwd)
    return f


def differentiates_itself(library):
    @library.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), library.grad(f)(x - 1) * t if x > 1 else t * x

    return f


def loops_in_python(library):
    """A rule that iterates until it is near enough."""

    @library.custom_vjp
    def f(x):
        return jnp.sqrt(x * x + 1)

    def fwd(x):
        y = x * x + 1.0
        z = y
        while abs(z * z - y) > 1e-4:
            z = 0.5 * (z + y / z)
        return z, (x, z)

    f.defvjp(fwd, lambda residuals, ct: (ct * residuals[0] / residuals[1],))
    return f


def leaves_for_numpy(library):
    @library.custom_vjp
    def f(x):
        return jnp.sin(x)

    def bwd(x, ct):
        return (jnp.asarray(np.cos(np.asarray(x)) * np.asarray(ct)),)

    f.defvjp(lambda x: (f(x), np.asarray(x)), bwd)
    return f


def within_another(library):
    """A function with a rule that branches, called by another such function and differentiated by its rule."""

    @library.custom_jvp
    def g(x):
        return jnp.sin(x)

    @g.defjvp
    def rule(primals, tangents):
        return g(primals[0]), tangents[0] * (2.0 if primals[0] > 0 else primals[0])

    @library.custom_jvp
    def f(x):
        return g(x) * x

    @f.defjvp
    def rule_of_f(primals, tangents):
        return f(primals[0]), tangents[0] * (library.grad(g)(primals[0]) if primals[0] > 0.1 else 3.0)

    return f


def told_of_zeros(library):
    """The forward rule branches, and is told which arguments are constant."""

    @library.custom_vjp
    def f(x, y):
        return x * y

    def fwd(x, y):
        assert x.perturbed and not y.perturbed
        return f(x.value, y.value), (x.value, y.value) if x.value > 0 else (y.value, x.value)

    def bwd(residuals, ct):
        return ct * residuals[1] if residuals[1] > 1 else 2 * ct * residuals[1], None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return lambda x: f(jnp.sin(x), 3.0)


def told_of_zero_tangents(library):
    @library.custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        (x, y), (t, zero) = primals, tangents
        assert not isinstance(zero, jax.Array)
        t = t if isinstance(t, jax.Array) else jnp.zeros_like(x)
        return f(x, y), t * (y if x > 0 else 2 * y)

    f.defjvp(rule, symbolic_zeros=True)
    return lambda x: f(jnp.sin(x), 3.0)


def more_programs(f, api):
    yield "third order", lambda x: api.grad(api.grad(api.grad(lambda x: f(x) * x)))(x)
    yield "forward over reverse", lambda x: api.jvp(api.grad(f), (x,), (2.0,))
    yield "jacrev", lambda x: api.jacrev(lambda x: jnp.stack([f(x), 2 * f(x)]))(x)
    yield "called in jit", lambda x: api.grad(lambda x: jnp.where(x > 9, x, f(x)) * 2)(x)


@pytest.mark.slow
@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize(
    "maker",
    [
        calls_itself_jvp, calls_itself_vjp, differentiates_itself, loops_in_python, leaves_for_numpy, within_another,
        told_of_zeros, told_of_zero_tangents,
    ],
)  # fmt: skip
def test_rules_that_call_and_are_told(maker, library):
    """Whatever JAX gives un-jitted, so does fgrad."""
    for kind in (programs, forward_programs, more_programs):
        ours, theirs = kind(maker(library), fgrad), kind(maker(jax), jax)
        for (name, a), (_, b) in zip(ours, theirs, strict=True):
            for x in (0.5, -0.5):
                try:
                    expected = b(x)
                except (TypeError, jax.errors.JAXTypeError):
                    continue  # no numbers under vmap, no forward mode of custom_vjp
                for p, q in zip(jax.tree.leaves(a(x)), jax.tree.leaves(expected), strict=True):
                    np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-5, err_msg=f"{name} at {x}")


@pytest.mark.parametrize("library", [jax, fgrad])
def test_forward_mode_knows_the_numbers_of_tangents(library):
    def make(library):
        @library.custom_jvp
        def f(x):
            return jnp.sin(x)

        @f.defjvp
        def rule(primals, tangents):
            return f(primals[0]), tangents[0] * 2 if tangents[0] > 1 else tangents[0]

        return f

    f, g = make(library), make(jax)
    for t in (0.5, 2.0, 0.5):
        for program in (
            lambda f, api, t=t: api.jvp(f, (0.5,), (t,)),
            lambda f, api, t=t: api.jvp(lambda x: f(x) * f(2 * x), (0.5,), (t,)),
        ):
            for p, q in zip(jax.tree.leaves(program(f, fgrad)), jax.tree.leaves(program(g, jax)), strict=True):
                np.testing.assert_allclose(p, q, rtol=1e-5)
    with pytest.raises(errors.NotConcreteError):
        fgrad.jit(lambda t: fgrad.jvp(f, (0.5,), (t,)))(2.0)
    # more than JAX: the linear function asks when it is called
    push = fgrad.linearize(f, 0.5)[1]
    assert (push(2.0), push(0.5)) == (4.0, 0.5)


@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("maker", MAKERS)
def test_staged_rules_have_none(maker, library):
    f = maker(library)
    fgrad.grad(f)(0.5)
    with pytest.raises(errors.NotConcreteError):
        fgrad.jit(fgrad.grad(f))(0.5)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        fgrad.vmap(fgrad.grad(f))(jnp.ones(2))
    with pytest.raises(jax.errors.JAXTypeError):
        jax.jit(fgrad.grad(f))(0.5)


@pytest.mark.parametrize("maker", MAKERS)
def test_equal_branches_share_what_was_made(maker):
    f = maker(fgrad)
    for x in POINTS * 2:
        fgrad.grad(f)(x)
    before = fgrad.cache_info()
    for x in (0.1, 0.2, -0.3, 2.4):
        fgrad.grad(f)(x)
    assert fgrad.cache_info() == before


def test_a_bwd_that_asks_is_called_once_per_backward_pass():
    seen = []

    @fgrad.custom_vjp
    def f(x):
        return jnp.sin(x)

    def bwd(x, ct):
        seen.append(float(ct))
        return (ct * jnp.cos(x),)

    f.defvjp(lambda x: (f(x), x), bwd)
    for ct in (1.0, 2.0, 2.0):
        seen.clear()
        fgrad.grad(lambda x, ct=ct: ct * f(x))(0.5)
        assert seen == [ct]
    value, back = fgrad.vjp(f, 0.5)
    seen.clear()
    back(3.0), back(4.0)
    assert seen == [3.0, 4.0]


def test_unknown_tangents_are_refused_in_reverse_mode():
    @fgrad.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), t * (2.0 if t > 0 else jnp.cos(x))

    with pytest.raises(errors.NotConcreteError, match="test_custom_concrete"):
        fgrad.grad(f)(1.0)


def test_forward_mode_through_a_bwd_that_asks_is_refused():
    with pytest.raises(errors.UndefinedDerivativeError, match="branches on numbers"):
        fgrad.jvp(branching_bwd(fgrad), (0.5,), (1.0,))


@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize("order", [2, 3])
def test_a_rule_that_is_asked_for_while_it_is_recorded(symbolic_zeros, order):
    """The rule calls its own function, and then another one whose rule asks what varies: the first is not whole yet."""
    calls = []

    def make(library):
        @library.custom_jvp
        def g(x):
            return jnp.sin(x)

        @g.defjvp
        def rule(primals, tangents):
            return g(primals[0]), tangents[0] * (2.0 if primals[0] > 0 else primals[0])

        @library.custom_jvp
        def f(x):
            return g(x) * x

        def rule_of_f(primals, tangents):
            calls.append(library)
            y = f(primals[0])
            return y, tangents[0] * (library.grad(g)(primals[0]) * library.grad(g)(y) if primals[0] > 0.1 else 3.0)

        f.defjvp(rule_of_f, symbolic_zeros=symbolic_zeros)
        return f

    def derivative(library):
        f = make(library)
        program = lambda x: x * f(x)  # noqa: E731
        for _ in range(order):
            program = library.grad(program)
        return program(0.5)

    np.testing.assert_allclose(derivative(fgrad), derivative(jax), rtol=1e-5)
    assert calls.count(fgrad) < 6


def test_a_rule_that_differentiates_its_own_call_is_refused_at_once():
    @fgrad.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        return f(primals[0]), tangents[0] * fgrad.grad(f)(primals[0])

    with pytest.raises(RecursionError, match="the very call"):
        fgrad.grad(f)(1.0)


def number_of(x):
    """Numbers out of sight of JAX, as a library takes them whose error for traced values is its own."""
    try:
        return np.array(concrete_or_error(None, x))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        raise ValueError("not under jit") from None


def numpy_vjp(library):
    @library.custom_vjp
    def f(x):
        return jnp.asarray(np.sin(number_of(x)))

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.asarray(np.cos(number_of(x))),))
    return f


def numpy_jvp(library):
    @library.custom_jvp
    def f(x):
        return jnp.asarray(np.sin(number_of(x)))

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * np.cos(number_of(*primals))))
    return f


@pytest.mark.parametrize("library", [jax, fgrad])
@pytest.mark.parametrize("maker", [numpy_vjp, numpy_jvp])
def test_rules_that_compute_outside_of_jax(maker, library):
    gradients = [
        api.value_and_grad(lambda x: 2 * f(3 * x))(0.5) for api, f in ((fgrad, maker(library)), (jax, maker(jax)))
    ]
    np.testing.assert_allclose(*gradients, rtol=1e-6)
    f = maker(library)
    closed_over = fgrad.grad(lambda x: x * f(jnp.float32(number_of(x))))(0.5)
    np.testing.assert_allclose(closed_over, np.sin(0.5), rtol=1e-6)
