"""Real programs for drawings: a perceptron, a transformer's block, a recurrent network, a deep network."""

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct


def of(*shape):
    return ShapeDtypeStruct(shape, jnp.float32)


def perceptron(params, x, y):
    h = x @ params[0]["w"]
    h = jnp.tanh(h + params[0]["b"])
    err = h @ params[1]["w"] - y
    return jnp.mean(err**2)


def normalised(x, scale):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * scale


def attention(params, x):
    q = x @ params["wq"]
    k = x @ params["wk"]
    v = x @ params["wv"]
    scores = q @ k.T / jnp.sqrt(8.0)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = weights @ v
    y = mixed @ params["wo"]
    return x + y


def block(params, x):
    h = normalised(x, params["scale"])
    h = attention(params, h)
    up = jax.nn.relu(h @ params["up"])
    out = up @ params["down"]
    return jnp.mean(out**2)


def recurrent(params, xs, target):
    def cell(h, x):
        h = jnp.tanh(x @ params["w"] + h @ params["u"])
        return h, h

    h, hs = jax.lax.scan(cell, jnp.zeros(8), xs)
    return jnp.mean((hs - target) ** 2)


def deep(layers, x):
    for layer in layers:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.sum(x * x)


def ode(rate, y):
    for _ in range(6):
        k1 = rate * y
        k2 = rate * (y + 0.05 * k1)
        y = y + 0.1 * k2
    return jnp.sum(y)


MODELS = {
    "perceptron": (perceptron, ([{"w": of(3, 4), "b": of(4)}, {"w": of(4, 2)}], of(5, 3), of(5, 2))),
    "block": (
        block,
        (
            {
                "wq": of(16, 8), "wk": of(16, 8), "wv": of(16, 8), "wo": of(8, 16),
                "scale": of(16), "up": of(16, 64), "down": of(64, 16),
            },
            of(32, 16),
        ),
    ),
    "recurrent": (recurrent, ({"w": of(4, 8), "u": of(8, 8)}, of(20, 4), of(20, 8))),
    "deep": (deep, ([{"w": of(4, 4), "b": of(4)}] * 12, of(5, 4))),
    "ode": (ode, (of(), of(3))),
}  # fmt: skip
