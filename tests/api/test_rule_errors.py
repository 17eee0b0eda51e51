"""Errors in the rules of custom functions show the lines of the operation, of the rule, and of the call."""

import jax
import jax.numpy as jnp
import pytest

import fgrad
from fgrad.api.rule_calls import RuleCallError


def given(function, bwd, fwd=None):
    f = function(lambda x, y: jnp.sin(x) * y)
    f.defvjp(fwd or (lambda x, y: (jnp.sin(x) * y, (x, y))), bwd)
    return f


def told(call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def failing(res, ct):
    raise ValueError("mine")


def badly_unpacked(res, ct):
    a, b, c = res
    return a, b


def too_few(res, ct):
    return (ct,)


def wrong_shape(res, ct):
    return ct, jnp.sum(ct)


def ill_fitting(res, ct):
    return ct @ jnp.ones((7, 7)), ct


RULES = {
    failing: "mine",
    badly_unpacked: "not enough values to unpack (expected 3, got 2)",
    too_few: "The bwd rule of '<lambda>' returned something else than it must at output.",
    wrong_shape: "The bwd rule of '<lambda>' returned something else than it must at output[1].",
    ill_fitting: "dot_general requires contracting dimensions to have the same shape",
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("jitted", [False, True])
def test_rules_of_fgrads_custom_vjp(rule, jitted):
    f = given(fgrad.custom_vjp, rule)

    def loss(x, y):
        hidden = f(x, y)
        return jnp.sum(hidden)

    gradient = fgrad.jit(fgrad.grad(loss)) if jitted else fgrad.grad(loss)
    text = told(lambda: gradient(jnp.ones(3), jnp.ones(3)))
    assert text.startswith(RULES[rule])
    code = rule.__code__
    assert f"This was in the bwd rule of '<lambda>': {rule.__name__}, at {__file__}:{code.co_firstlineno}." in text
    assert f"The operation was called at {__file__}:" in text and "\n    hidden = f(x, y)\n" in text
    assert "Its derivative was asked for at" in text and "\n    text = told(lambda: gradient(" in text
    assert text.count("The operation was called at") == text.count("This was in the bwd rule") == 1


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_jaxs_custom_vjp(rule):
    f = given(jax.custom_vjp, rule)

    def loss(x, y):
        hidden = f(x, y)
        return jnp.sum(hidden)

    text = told(lambda: fgrad.grad(loss)(jnp.ones(3), jnp.ones(3)))
    assert f"The operation was called at {__file__}:" in text and "\n    hidden = f(x, y)\n" in text
    assert "Its derivative was asked for at" in text
    assert f"This was in the bwd rule of '{f.__name__}': " in text and f", at {__file__}:" in text


def test_a_forward_rule_and_a_rule_for_forward_mode():
    f = given(fgrad.custom_vjp, failing, fwd=lambda x, y: x)
    text = told(lambda: fgrad.grad(lambda x: jnp.sum(f(x, x)))(jnp.ones(3)))
    assert text.startswith("The fwd rule of '<lambda>' returned") and "This was in the fwd rule of '<lambda>':" in text

    g = fgrad.custom_jvp(jnp.sin)

    @g.defjvp
    def rule(primals, tangents):
        raise ValueError("mine")

    text = told(lambda: fgrad.jvp(lambda x: g(x) * 2, (1.0,), (1.0,)))
    assert text.startswith("mine") and "This was in the jvp rule of 'sin': " in text and "was called at" in text


def test_an_error_outside_of_rules_is_left_alone():
    def loss(x):
        raise ValueError("mine")

    assert told(lambda: fgrad.grad(loss)(1.0)) == "mine"


def test_a_forgotten_cotangent_is_refused():
    """It would be a gradient of zero without a word."""

    def product(x, y):
        return x * y

    def half(ct, out, x, y):
        return (ct * y,)

    ruled = fgrad.define_rule(product, vjp=half)
    line = half.__code__.co_firstlineno
    with pytest.raises(
        RuleCallError, match=rf"vjp rule of 'product', defined at .*:{line}, returns 1 cotangent for 2"
    ) as caught:
        fgrad.grad(lambda x: ruled(x, 2 * x))(1.0)
    assert "The operation was called at" in "\n".join(caught.value.__notes__)
    linear = fgrad.define_rule(product, transpose=lambda ct, x, y: (ct * y, None, None))
    with pytest.raises(RuleCallError, match="transpose rule of 'product'.* returns 3 cotangents for 2"):
        fgrad.grad(lambda x: linear(x, 2.0))(1.0)


def test_the_line_of_a_rule_is_the_users():
    def plain(x):
        return x

    def strange(ct, out, x):
        raise KeyError("strange")

    with pytest.raises(KeyError) as caught:
        fgrad.grad(fgrad.define_rule(plain, vjp=strange))(1.0)
    assert f"{__file__}:{strange.__code__.co_firstlineno}" in "\n".join(caught.value.__notes__)
