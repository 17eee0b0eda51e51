"""``check_rule`` and wrong rules: what a rule gets wrong at second order, and rules that do not take what they get."""

import jax.numpy as jnp
import pytest
from jax import lax

import fgrad
from fgrad.api.rule_calls import RuleCallError


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_a_rule_that_is_wrong_at_second_order(kind):
    slope = {
        "vjp": lambda ct, out, x: (ct * lax.stop_gradient(jnp.cos(x)),),
        "jvp": lambda tangents, out, x: tangents[0] * lax.stop_gradient(jnp.cos(x)),
    }
    f = fgrad.define_rule(lambda x: jnp.sin(x), **{kind: slope[kind]})
    assert fgrad.grad(f)(1.0) == pytest.approx(float(jnp.cos(1.0)))
    with pytest.raises(fgrad.errors.RuleCheckError, match=f"second derivative of the {kind} rule"):
        fgrad.check_rule(f, 1.0)


def test_rules_that_are_right_at_second_order_pass():
    fgrad.check_rule(fgrad.define_rule(jnp.sin, vjp=lambda ct, out, x: (ct * jnp.cos(x),)), jnp.ones(3))
    fgrad.check_rule(fgrad.define_rule(jnp.exp, jvp=lambda t, out, x: t[0] * out), jnp.ones((2, 2)))
    f = fgrad.define_rule(lambda p: p["w"] ** 2 * p["b"], vjp=lambda ct, out, p: (
        {"w": 2 * ct * p["w"] * p["b"], "b": ct * p["w"] ** 2},
    ))  # fmt: skip
    fgrad.check_rule(f, {"w": jnp.float32(1.5), "b": jnp.float32(0.5)})
    double = fgrad.define_rule(lambda x: 2 * x, transpose=lambda ct, x: (2 * ct,))
    fgrad.check_rule(double, 1.0)


def unpacks(ct, out, x, y):
    first, second = ct
    return first * y, second * x


def test_a_wrong_unpacking_names_the_line_and_what_was_given():
    f = fgrad.define_rule(lambda x, y: x * y, vjp=unpacks)
    for ask in (lambda: fgrad.check_rule(f, 1.0, jnp.ones(3)), lambda: fgrad.grad(f)(1.0, 2.0)):
        with pytest.raises(RuleCallError) as error:
            ask()
        message = str(error.value)
        assert "first, second = ct" in message and "test_rule_checks.py:" in message
        assert "  ct: " in message and "  args[1]: " in message
        assert "takes (ct, out, *args, **params)" in message


def test_a_rule_of_another_signature():
    f = fgrad.define_rule(lambda x: x * 2, vjp=lambda ct, x: (ct * 2,))
    with pytest.raises(
        RuleCallError, match=r"takes 2 positional arguments but 3 were given[^$]*defined at .*rule_checks"
    ):
        fgrad.check_rule(f, 1.0)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (lambda ct, out, p: (ct * p["w"],), r"returns f32\[\] as the cotangent of argument 0, which is \{'b'"),
        (lambda ct, out, p: ({"w": ct, "b": ct}, ct), "returns 2 cotangents for 1 argument"),
        (lambda ct, out, p: ({"w": ct, "b": ct * jnp.ones(2)},), "returns a cotangent of type"),
    ],
)
def test_results_of_another_form(rule, text):
    f = fgrad.define_rule(lambda p: p["w"] + p["b"], vjp=rule)
    with pytest.raises(RuleCallError, match=text):
        fgrad.check_rule(f, {"w": 1.0, "b": 2.0})


def test_errors_of_the_rules_own_making_stay():
    def rule(ct, out, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fgrad.check_rule(fgrad.define_rule(lambda x: x, vjp=rule), 1.0)
