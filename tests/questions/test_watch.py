"""``fgrad.watch``: values inside a function, and the derivatives of its output with respect to them."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def mlp(params, x, bump=0.0):
    z = x @ params["w"]
    h = jnp.tanh(z) + bump
    y = h @ params["v"]
    loss = jnp.mean(y**2)
    return loss  # noqa: RET504 (the name is what is read)


PARAMS = {"w": X[:3].T @ X[:3], "v": X[0]}


def test_value_and_cotangent_of_a_variable():
    seen = fgrad.watch(mlp, "h", "loss")(PARAMS, X)
    (h,), (loss,) = seen["h"], seen["loss"]
    np.testing.assert_allclose(h.value, np.tanh(X @ PARAMS["w"]), rtol=1e-5)
    # the oracle adds a zero to the variable
    bump = jax.grad(lambda bump: mlp(PARAMS, X, bump))(jnp.zeros((5, 3)))
    np.testing.assert_allclose(h.cotangent, bump, rtol=1e-5, atol=1e-7)
    assert loss.cotangent == 1.0 and loss.value == pytest.approx(float(mlp(PARAMS, X)))
    assert "h = jnp.tanh(z)" in h.source.text and h.steps == ()


def test_arguments_go_by_their_path():
    (w,) = fgrad.watch(mlp, "params['w']")(PARAMS, X)["params['w']"]
    np.testing.assert_allclose(w.cotangent, jax.grad(mlp)(PARAMS, X)["w"], rtol=1e-5)
    assert w.source is None


def test_lines_and_everything():
    code, first = inspect.getsourcelines(mlp)
    line = first + next(i for i, text in enumerate(code) if "y = h" in text)
    seen = fgrad.watch(mlp, line)(PARAMS, X)
    assert [record.name for record in seen[str(line)]] == ["y"]
    assert fgrad.watch(mlp, f"test_watch.py:{line}")(PARAMS, X)[f"test_watch.py:{line}"][0].name == "y"
    everything = fgrad.watch(mlp)(PARAMS, X)
    assert {"z", "h", "y", "loss", "x", "params['w']", "params['v']"} <= set(everything)


def rnn(w, xs, bumps):
    def body(h, x):
        z = w * h + x[0]
        h = jnp.tanh(z) + x[1]
        return h, h

    last, hs = jax.lax.scan(body, jnp.float32(0.5), (xs, bumps))
    return jnp.sum(hs**2) + last


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_gives_a_record_for_each_step(reverse):
    xs = X[0]

    def f(w, xs, bumps):
        def body(h, x):
            z = w * h + x[0]
            h = jnp.tanh(z) + x[1]
            return h, h

        last, hs = jax.lax.scan(body, jnp.float32(0.5), (xs, bumps), reverse=reverse)
        return jnp.sum(hs**2) + last

    seen = fgrad.watch(f, "z", "w", "xs")(1.5, xs, jnp.zeros(3))
    order = [2, 1, 0] if reverse else [0, 1, 2]
    assert [record.steps for record in seen["z"]] == [(t,) for t in order]
    bumps = jax.grad(f, argnums=2)(1.5, xs, jnp.zeros(3))
    slopes = [float(bumps[t] * (1 - np.tanh(record.value) ** 2)) for t, record in zip(order, seen["z"], strict=True)]
    np.testing.assert_allclose([record.cotangent for record in seen["z"]], slopes, rtol=1e-5)
    gradient = jax.grad(f, argnums=(0, 1))(1.5, xs, jnp.zeros(3))
    np.testing.assert_allclose(seen["w"][0].cotangent, gradient[0], rtol=1e-5)
    np.testing.assert_allclose(seen["xs"][0].cotangent, gradient[1], rtol=1e-5)


def test_python_loops_number_their_values():
    def f(x):
        for _ in range(3):
            x = jnp.sin(x)
        return x

    seen = fgrad.watch(f, "x")(0.5)
    assert [record.name for record in seen["x"]] == ["x", "x#2", "x#3", "x#4"]
    np.testing.assert_allclose(seen["x"][0].cotangent, jax.grad(f)(0.5), rtol=1e-6)
    (third,) = fgrad.watch(f, "x#3")(0.5)["x#3"]
    np.testing.assert_allclose(third.value, np.sin(np.sin(0.5)), rtol=1e-6)


def test_branches_blocks_and_calls():
    def f(x):
        def yes(x):
            inside = x * 3.0
            return jnp.sum(inside**2)

        def block(x):
            kept = jnp.sin(x)
            return kept * x

        a = jax.lax.cond(x[0] > 0, yes, lambda x: jnp.sum(x), x)
        b = fgrad.checkpoint(block)(x)
        return a + jnp.sum(b)

    x = jnp.array([0.3, 0.4])
    seen = fgrad.watch(f, "inside", "kept")(x)
    np.testing.assert_allclose(seen["inside"][0].cotangent, 6 * x, rtol=1e-6)
    np.testing.assert_allclose(seen["kept"][0].cotangent, x, rtol=1e-6)


def test_a_loop_without_backward_gives_values():
    def f(x):
        def body(c):
            c = c * 2.0
            return c  # noqa: RET504

        return jax.lax.while_loop(lambda c: c < 10.0, body, x)

    seen = fgrad.watch(f, "c")(1.0)
    assert [float(record.value) for record in seen["c"]] == [2.0, 4.0, 8.0, 16.0]
    assert seen.refused and all(record.cotangent is None for record in seen["c"])


def test_a_small_transformer_has_the_gradients_of_jax():
    rng = np.random.default_rng(1)
    params = {name: rng.normal(size=(3, 3)).astype(np.float32) for name in ("q", "k", "v", "o")}

    def loss(params, x):
        def norm(x):
            mean = x.mean(-1, keepdims=True)
            return (x - mean) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

        def layer(x, _):
            y = norm(x)
            weights = jax.nn.softmax((y @ params["q"]) @ (y @ params["k"]).T)
            x = x + jax.nn.gelu(weights @ (y @ params["v"])) @ params["o"]
            return x, None

        x, _ = jax.lax.scan(layer, x, None, length=2)
        return jnp.mean(x**2)

    seen = fgrad.watch(loss)(params, X)
    gradient = jax.grad(loss)(params, X)
    for name in params:
        np.testing.assert_allclose(seen[f"params['{name}']"][0].cotangent, gradient[name], rtol=1e-3, atol=1e-5)
    assert len(seen["weights"]) == 2 and seen["weights"][0].value.shape == (5, 5)


def test_a_gradient_is_watched_by_its_function():
    def f(w, x):
        h = w * x
        return jnp.sum(h)

    seen = fgrad.watch(fgrad.grad(f), "h", "x")(2.0, X[0])
    np.testing.assert_array_equal(seen["h"][0].cotangent, np.ones(3, np.float32))
    assert seen["x"][0].cotangent is None


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(NameError, match=r"nothing in the graph is called 'q'. The variables are: .*loss"):
        fgrad.watch(mlp, "q")(PARAMS, X)


def test_it_prints_and_shows():
    seen = fgrad.watch(rnn, "z")(1.5, X[0], jnp.zeros(3))
    assert seen and len(seen) == 1 and str(seen) == repr(seen)
    assert str(seen).splitlines()[1].split()[:2] == ["z", "0"]
    assert "<table>" in seen._repr_html_()
