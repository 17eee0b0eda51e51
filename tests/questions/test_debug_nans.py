"""What ``jax_debug_nans`` prints: JAX's text first, then the user's line, the numbers, and the way out."""

import jax
import jax.numpy as jnp
import pytest

import fgrad


def root(x):
    h = jnp.where(x > 0.0, jnp.sqrt(x), 0.0)
    return jnp.sum(h)


X = jnp.array([4.0, 0.0])


def error(function, *args, infs=False):
    with jax.debug_infs(infs), jax.debug_nans(not infs), pytest.raises(FloatingPointError) as raised:
        function(*args)
    return str(raised.value)


@pytest.mark.parametrize(
    "wrap", [fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f)), lambda f: jax.jit(fgrad.grad(f))], ids=["", "fgrad", "jax"]
)
def test_the_first_and_later_calls_name_the_line(wrap):
    function = wrap(root)
    for _ in range(3):
        text = error(function, X)
        assert text.startswith("invalid value (nan) encountered in div\n\n")
        assert "It arose in backward, in the derivative of sqrt" in text
        assert "h = jnp.where(x > 0.0, jnp.sqrt(x), 0.0)" in text and "in root" in text
        assert "double where" in text and "fgrad.nonfinite(f)(*args)" in text


def test_forward():
    def loss(x):
        z = jnp.log(x - 5.0)
        return jnp.sum(z)

    text = error(fgrad.value_and_grad(loss), X)
    assert "It arose in forward, in log" in text and "z = jnp.log(x - 5.0)" in text and "-1.0" in text


def test_infinities():
    text = error(fgrad.grad(lambda x: jnp.sum(jnp.exp(x) ** 2)), X * 100, infs=True)
    assert "Inf in" in text and "overflows" in text


def test_a_step_of_a_loop():
    def rnn(w, xs):
        def body(h, x):
            h = jnp.log(w * h + x)
            return h, None

        return jax.lax.scan(body, jnp.float32(1.0), xs)[0]

    text = error(fgrad.grad(rnn), 1.0, jnp.array([1.0, 1.0, -3.0, 1.0]))
    assert "h = jnp.log(w * h + x)" in text
    assert "in step 2 of the loop" in text


def test_what_is_finite_runs():
    with jax.debug_nans(True):
        assert fgrad.jit(fgrad.grad(root))(jnp.array([4.0, 1.0]))[0] == 0.25


def test_infinities_of_masks_are_no_error_unless_they_reach_a_result():
    def loss(x):
        return jax.nn.logsumexp(x) + jnp.max(x, where=x > 1.0, initial=-jnp.inf)

    with jax.debug_infs(True):
        assert jnp.allclose(fgrad.grad(loss)(X), jax.nn.softmax(X) + jnp.array([1.0, 0.0]))
        text = error(fgrad.value_and_grad(lambda x: jnp.sum(jnp.where(x > 1.0, x, -jnp.inf))), X, infs=True)
    assert "invalid value (inf)" in text and "-inf" in text
