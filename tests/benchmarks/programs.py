"""The functions that the benchmark differentiates, each written once for any NumPy-like namespace."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from attrs import frozen
from jax import lax


@frozen
class Program:
    """A scalar function of its first argument: ``make(namespace)`` gives it, ``args`` are arrays to call it on."""

    name: str
    make: Callable[[Any], Callable[..., Any]]
    args: tuple[Any, ...]


def _normal(seed: int, *shape: int, scale: float = 1.0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, jnp.float32)


def chain(length: int) -> Program:
    """``length`` chained 32x32 products and a sum."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(x: Any, w: Any) -> Any:
            for _ in range(length):
                x = np_.matmul(x, w)
            return np_.sum(x)

        return f

    return Program(f"chain of {length} products", make, (_normal(0, 32, 32), _normal(1, 32, 32, scale=0.15)))


def mlp(sizes: tuple[int, ...], batch: int) -> Program:
    """A tanh network with a mean squared error."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(params: Any, x: Any, y: Any) -> Any:
            for w, b in params[:-1]:
                x = np_.tanh(np_.matmul(x, w) + b)
            w, b = params[-1]
            return np_.mean((np_.matmul(x, w) + b - y) ** 2)

        return f

    params = [(_normal(i, a, b, scale=a**-0.5), jnp.zeros(b)) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    name = f"MLP {'-'.join(map(str, sizes))}, batch {batch}"
    return Program(name, make, (params, _normal(8, batch, sizes[0]), _normal(9, batch, sizes[-1])))


def attention() -> Program:
    """One self-attention block: 4 heads of 16, 64 tokens, layer norm and a feed-forward layer."""

    def make(np_: Any) -> Callable[..., Any]:
        def norm(x: Any) -> Any:
            centred = x - np_.mean(x, axis=-1, keepdims=True)
            return centred / np_.sqrt(np_.mean(centred**2, axis=-1, keepdims=True) + 1e-5)

        def softmax(x: Any) -> Any:
            e = np_.exp(x - np_.max(x, axis=-1, keepdims=True))
            return e / np_.sum(e, axis=-1, keepdims=True)

        def f(p: Any, x: Any) -> Any:
            h = norm(x)
            q, k, v = (np_.transpose(np_.reshape(np_.matmul(h, p[n]), (4, 64, 4, 16)), (0, 2, 1, 3)) for n in "qkv")
            scores = np_.matmul(q, np_.transpose(k, (0, 1, 3, 2))) * 0.25
            mixed = np_.reshape(np_.transpose(np_.matmul(softmax(scores), v), (0, 2, 1, 3)), (4, 64, 64))
            x = x + np_.matmul(mixed, p["o"])
            return np_.mean((x + np_.matmul(np_.tanh(np_.matmul(norm(x), p["a"])), p["b"])) ** 2)

        return f

    sizes = {"q": (64, 64), "k": (64, 64), "v": (64, 64), "o": (64, 64), "a": (64, 256), "b": (256, 64)}
    params = {name: _normal(i, *shape, scale=0.1) for i, (name, shape) in enumerate(sizes.items())}
    return Program("attention block", make, (params, _normal(7, 4, 64, 64)))


def conv_net() -> Program:
    """Two convolutions with ReLU and pooling, and a linear layer, on 16 images of 28x28."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(p: Any, x: Any) -> Any:
            for kernel in (p["a"], p["b"]):
                x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
                x = np_.maximum(x, 0.0)
                x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            logits = np_.matmul(np_.reshape(x, (16, -1)), p["c"])
            return -np_.mean(jax.nn.log_softmax(logits)[:, 0])

        return f

    params = {
        "a": _normal(0, 3, 3, 1, 8, scale=0.3),
        "b": _normal(1, 3, 3, 8, 16, scale=0.1),
        "c": _normal(2, 784, 10, scale=0.03),
    }
    return Program("conv net", make, (params, _normal(3, 16, 28, 28, 1)))


def rnn() -> Program:
    """A recurrent network as a scan over 50 steps."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(p: Any, xs: Any) -> Any:
            def step(h: Any, x: Any) -> Any:
                h = jnp.tanh(h @ p["h"] + x @ p["x"] + p["b"])
                return h, h

            _, hs = lax.scan(step, jnp.zeros((16, 64)), xs)
            return np_.mean(hs**2)

        return f

    params = {"h": _normal(0, 64, 64, scale=0.1), "x": _normal(1, 32, 64, scale=0.1), "b": jnp.zeros(64)}
    return Program("scan RNN", make, (params, _normal(2, 50, 16, 32)))


def elementwise(length: int) -> Program:
    """``length`` elementwise operations on 64 numbers."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            y = x
            for i in range(length // 3):
                y = np_.sin(y) * x + 0.1 * (i % 7)
            return np_.sum(y)

        return f

    return Program(f"{length} elementwise operations", make, (_normal(0, 64),))


def layers(length: int) -> Program:
    """``length`` operations in tanh layers on 8x16 matrices."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(x: Any, w: Any, b: Any) -> Any:
            for _ in range(length // 3):
                x = np_.tanh(np_.matmul(x, w) + b)
            return np_.sum(x)

        return f

    args = (_normal(0, 8, 16), _normal(1, 16, 16, scale=0.2), jnp.zeros(16))
    return Program(f"{length} operations in layers", make, args)


def mixed(length: int) -> Program:
    """``length`` operations of many kinds on 64 numbers, twelve in a step."""

    def make(np_: Any) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            y = x
            for _ in range(length // 12):
                y = np_.exp(-y * y) + np_.where(y > 0, y, 0.1 * y)
                y = y / np_.sqrt(1.0 + np_.sum(y * y))
            return np_.sum(y)

        return f

    return Program(f"{length} mixed operations", make, (_normal(0, 64),))


def rosenbrock() -> Program:
    """The Rosenbrock function of 32 variables, for a Hessian."""

    def make(np_: Any) -> Callable[..., Any]:
        return lambda x: np_.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return Program("Hessian, 32 variables", make, (_normal(0, 32),))
