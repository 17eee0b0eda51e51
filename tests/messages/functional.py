"""Mistakes that users of JAX make with derivatives; each program takes ``jax`` or ``fgrad``."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.messages.mistake import registry

MISTAKES, mistake = registry()

PARAMS = {
    "layers": [
        {"w": np.ones((4, 8), np.float32), "b": np.zeros(8, np.float32)},
        {"w": np.ones((16, 2), np.float32), "b": np.zeros(2, np.float32)},
    ]
}
X = np.ones((5, 4), np.float32)


# -- numbers that are not known yet ----------------------------------------------------------------------------------


@mistake("if on a traced value under jit", "the line that made the value, and three ways out")
def _(lib: Any) -> Any:
    def relu(x):
        return x if x > 0 else 0.0 * x

    return lib.jit(relu)(1.0)


@mistake("while on a traced value under jit", "the line that made the value, and three ways out")
def _(lib: Any) -> Any:
    def collatz(n, limit):
        steps = 0
        while n > limit:
            n, steps = n / 2, steps + 1
        return steps

    return lib.jit(collatz)(10.0, limit=1.0)


@mistake("float() of an argument under jit", "ways out that fit")
def _(lib: Any) -> Any:
    def step(params, config):
        rate = float(config["rate"])
        return params - rate

    return lib.jit(step)(1.0, {"rate": 0.1})


@mistake("range() of an argument under jit", "ways out: fori_loop, or which argument to make static")
def _(lib: Any) -> Any:
    def power(x, n):
        out = 1.0
        for _ in range(n):
            out = out * x
        return out

    return lib.jit(power)(2.0, 3)


@mistake("a shape from an argument under jit", "the line, and what shapes may depend on")
def _(lib: Any) -> Any:
    def padded(x, n):
        return jnp.concatenate([x, jnp.zeros(n)])

    return lib.jit(padded)(jnp.ones(3), 2)


@mistake("a slice up to a traced index", "the line, the array, and the way out")
def _(lib: Any) -> Any:
    def first(x, n):
        return x[:n].sum()

    return lib.jit(first)(jnp.ones(5), 2)


@mistake("a boolean mask under jit", "the line, the mask and the array, and the way out")
def _(lib: Any) -> Any:
    def positive(x):
        return x[x > 0].sum()

    return lib.jit(positive)(jnp.arange(3.0))


@mistake("jnp.unique under jit")
def _(lib: Any) -> Any:
    def classes(labels):
        return jnp.unique(labels)

    return lib.jit(classes)(jnp.array([1, 2, 2]))


@mistake(".item() of a loss under jit", "the line that made the value, and the way out")
def _(lib: Any) -> Any:
    def loss(w):
        value = jnp.sum(w * w)
        log = value.item()
        return value, log

    return lib.jit(loss)(jnp.ones(2))


@mistake("np.asarray of a traced value in a loss", "why it is refused, which argument it is, and the way out")
def _(lib: Any) -> Any:
    def loss(w):
        return jnp.sum(jnp.array(np.asarray(w) ** 2))

    return lib.grad(loss)(jnp.ones(2))


@mistake("float() of a loss inside of grad", "why it is refused, the line, and the way out")
def _(lib: Any) -> Any:
    def loss(w):
        return float(jnp.sum(w * w))

    return lib.grad(loss)(jnp.ones(2))


@mistake("math.sin in a loss", "why it is refused, which argument it is, and the function to use")
def _(lib: Any) -> Any:
    def loss(x):
        return math.sin(x) * x

    return lib.grad(loss)(1.0)


@mistake("a write into a NumPy array", "the line, the argument, why it is refused, and the way out")
def _(lib: Any) -> Any:
    def loss(x):
        out = np.zeros(2)
        out[0] = x
        return out.sum()

    return lib.grad(loss)(1.0)


@mistake("item assignment")
def _(lib: Any) -> Any:
    def loss(x):
        x[0] = 0.0
        return x.sum()

    return lib.grad(loss)(jnp.ones(3))


@mistake("a Python branch inside of vmap", "the line and the way out")
def _(lib: Any) -> Any:
    def clip(x):
        if x > 1:
            return 1.0
        return x

    return lib.vmap(clip)(jnp.arange(3.0))


@mistake("a Python branch in the body of a scan")
def _(lib: Any) -> Any:
    def loss(w):
        def body(h, x):
            if x > 0:
                h = h * w
            return h, h

        return lax.scan(body, 1.0, jnp.arange(3.0))[0]

    return lib.grad(loss)(2.0)


# -- values that got out ---------------------------------------------------------------------------------------------


@mistake("a leak out of jit through a list")
def _(lib: Any) -> Any:
    history = []

    def step(x):
        y = jnp.sin(x)
        history.append(y)
        return y * 2

    lib.jit(step)(1.0)
    return history[0] + 1


@mistake("a leak out of grad through an attribute", "the function, the line that made the value, and the way out")
def _(lib: Any) -> Any:
    class Model:
        last: Any = None

        def loss(self, w):
            self.last = w * 2
            return self.last**2

    model = Model()
    lib.grad(model.loss)(1.0)
    return jnp.sin(model.last)


# -- what is differentiated ------------------------------------------------------------------------------------------


@mistake("grad of a function that is no scalar", "the ways out")
def _(lib: Any) -> Any:
    def loss(w):
        return (w * X[0]) ** 2

    return lib.grad(loss)(jnp.ones(4))


@mistake("auxiliary output without has_aux", "has_aux, instead of the numbers")
def _(lib: Any) -> Any:
    def loss(w):
        value = jnp.sum(w**2)
        return value, {"value": value}

    return lib.grad(loss)(jnp.ones(4))


@mistake("has_aux without auxiliary output", "in words, with the way out")
def _(lib: Any) -> Any:
    def loss(w):
        return jnp.sum(w**2)

    return lib.value_and_grad(loss, has_aux=True)(jnp.ones(4))


@mistake("a loss that returns nothing", "that a return is missing")
def _(lib: Any) -> Any:
    def loss(w):
        jnp.sum(w**2)

    return lib.grad(loss)(jnp.ones(4))


@mistake("an integer argument", "which argument of which function")
def _(lib: Any) -> Any:
    def loss(x):
        return x**2

    return lib.grad(loss)(3)


@mistake("an integer among the parameters", "the path among the parameters")
def _(lib: Any) -> Any:
    def loss(params):
        return params["w"] ** params["power"]

    return lib.grad(loss)({"w": 2.0, "power": 2})


@mistake("a loss of integers", "differentiable stand-ins")
def _(lib: Any) -> Any:
    def accuracy(w):
        return jnp.sum(jnp.argmax(X @ w, axis=1) == 0)

    return lib.grad(accuracy)(jnp.ones((4, 2)))


@mistake("a PRNG key among the parameters", "the path, that it is a key, and where keys go")
def _(lib: Any) -> Any:
    def loss(params):
        return jnp.sum(params["w"] * jax.random.normal(params["key"], (3,)))

    return lib.grad(loss)({"w": jnp.ones(3), "key": jax.random.key(0)})


@mistake("an old-style PRNG key among the parameters", "the path, that it looks like a key, and where keys go")
def _(lib: Any) -> Any:
    def loss(params):
        return jnp.sum(params["w"] * jax.random.normal(params["key"], (3,)))

    return lib.grad(loss)({"w": jnp.ones(3), "key": jax.random.PRNGKey(0)})


@mistake("parameters of a class that JAX does not know", "how to register the class, with its fields")
def _(lib: Any) -> Any:
    class Linear:
        def __init__(self, w, b):
            self.w, self.b = w, b

    def loss(model):
        return jnp.sum((X @ model.w + model.b) ** 2)

    return lib.grad(loss)(Linear(jnp.ones((4, 2)), jnp.zeros(2)))


@mistake("an object of no registered class handed to jit")
def _(lib: Any) -> Any:
    class Config:
        rate = 0.1

    def step(w, config):
        return w - config.rate

    return lib.jit(step)(1.0, Config())


@mistake("a string among the parameters", "the path, and the way out")
def _(lib: Any) -> Any:
    def loss(params):
        return jnp.sum(params["w"] ** 2)

    return lib.grad(loss)({"w": jnp.ones(2), "activation": "relu"})


@mistake("a list as a static argument", "which argument, and the way out")
def _(lib: Any) -> Any:
    def mlp(x, sizes):
        return x * sizes[0]

    return lib.jit(mlp, static_argnums=1)(1.0, [8, 2])


@mistake("argnums beyond the arguments")
def _(lib: Any) -> Any:
    def loss(w, x):
        return w * x

    return lib.grad(loss, argnums=2)(1.0, 2.0)


@mistake("the differentiated argument by keyword")
def _(lib: Any) -> Any:
    def loss(w, x):
        return w * x

    return lib.grad(loss)(w=1.0, x=2.0)


@mistake("grad of a value instead of a function", "the way out")
def _(lib: Any) -> Any:
    def loss(w):
        return jnp.sum(w**2)

    return lib.grad(loss(jnp.ones(2)))


@mistake("a complex loss")
def _(lib: Any) -> Any:
    def loss(z):
        return z**2

    return lib.grad(loss)(1.0 + 2.0j)


# -- shapes ----------------------------------------------------------------------------------------------------------


@mistake("matrices that do not fit", "the line, and the parameter's path")
def _(lib: Any) -> Any:
    def loss(params, x):
        for layer in params["layers"]:
            x = x @ layer["w"] + layer["b"]
        return jnp.mean(x)

    return lib.grad(loss)(PARAMS, X)


@mistake("matrices that do not fit, with jnp.dot under jit", "the line, and the arguments by name")
def _(lib: Any) -> Any:
    def predict(w, x):
        return jnp.dot(x, w)

    return lib.jit(predict)(jnp.ones((3, 2)), X)


@mistake("a bias that does not broadcast", "the line, and the variables by name")
def _(lib: Any) -> Any:
    def loss(w, bias):
        h = X @ w
        return jnp.sum(h + bias)

    return lib.grad(loss, argnums=(0, 1))(jnp.ones((4, 2)), jnp.zeros(5))


@mistake("an einsum whose sizes differ", "the line, and the arguments by name")
def _(lib: Any) -> Any:
    def attention(q, k):
        return jnp.einsum("td,sd->ts", q, k).sum()

    return lib.grad(attention)(jnp.ones((3, 8)), jnp.ones((3, 4)))


@mistake("parts that do not concatenate", "the line, and the arguments by name")
def _(lib: Any) -> Any:
    def loss(a, b):
        return jnp.concatenate([a, b]).sum()

    return lib.grad(loss)(jnp.ones((2, 3)), jnp.ones((2, 4)))


@mistake("a reshape to another size", "the line, and the argument by name")
def _(lib: Any) -> Any:
    def loss(image):
        return image.reshape(4, 4).sum()

    return lib.grad(loss)(jnp.ones((3, 5)))


@mistake("vmap over axes of different sizes")
def _(lib: Any) -> Any:
    def score(x, y):
        return x * y

    return lib.vmap(score)(jnp.ones(3), jnp.ones(4))


@mistake("vmap over a number", "which argument, and the way out")
def _(lib: Any) -> Any:
    def score(x, w):
        return x * w

    return lib.vmap(lib.grad(score))(jnp.ones(3), 2.0)


# -- loops and branches ----------------------------------------------------------------------------------------------


@mistake("a while_loop in reverse mode", "why, the line, and more ways out")
def _(lib: Any) -> Any:
    def newton(a):
        return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-3, lambda x: (x + a / x) / 2, a)

    return lib.grad(newton)(2.0)


@mistake("a fori_loop with a traced bound in reverse mode", "why, the line, and more ways out")
def _(lib: Any) -> Any:
    def power(x, n):
        return lax.fori_loop(0, n, lambda i, y: y * x, 1.0)

    return lib.jit(lib.grad(power))(2.0, 3)


@mistake("a scan whose carry changes its type")
def _(lib: Any) -> Any:
    def loss(w):
        def body(state, x):
            return {"h": state["h"] * w, "last": x * w}, None

        return lax.scan(body, {"h": 1.0, "last": 0.0}, jnp.ones((3, 2)))[0]["h"]

    return lib.grad(loss)(2.0)


@mistake("branches of different types")
def _(lib: Any) -> Any:
    def loss(x):
        return lax.cond(x > 0, lambda x: x, lambda x: jnp.zeros(2), x).sum()

    return lib.grad(loss)(1.0)


# -- cotangents, tangents, rules -------------------------------------------------------------------------------------


@mistake("a cotangent of the wrong shape", "the path")
def _(lib: Any) -> Any:
    def f(params):
        return {"y": X @ params}

    _, pullback = lib.vjp(f, jnp.ones((4, 2)))
    return pullback({"y": jnp.ones(5)})


@mistake("a cotangent of another structure")
def _(lib: Any) -> Any:
    def f(x):
        return jnp.sin(x), jnp.cos(x)

    _, pullback = lib.vjp(f, 1.0)
    return pullback(1.0)


@mistake("a tangent of the wrong dtype", "the path")
def _(lib: Any) -> Any:
    def f(params):
        return params["w"] * 2

    return lib.jvp(f, ({"w": jnp.ones(2)},), ({"w": jnp.ones(2, int)},))


@mistake("a backward rule with too few results", "the function, and the line of its call")
def _(lib: Any) -> Any:
    @lib.custom_vjp
    def scale(x, y):
        return x * y

    def fwd(x, y):
        return x * y, (x, y)

    def bwd(residuals, g):
        x, y = residuals
        return (g * y,)

    scale.defvjp(fwd, bwd)
    return lib.grad(scale)(1.0, 2.0)


@mistake("a backward rule with a result of the wrong shape", "the function, and the line of its call")
def _(lib: Any) -> Any:
    @lib.custom_vjp
    def total(x):
        return jnp.sum(x)

    def fwd(x):
        return jnp.sum(x), x

    def bwd(x, g):
        return (g,)

    total.defvjp(fwd, bwd)
    return lib.grad(total)(jnp.ones(3))


@mistake("a custom_vjp without its rules", "the way out")
def _(lib: Any) -> Any:
    @lib.custom_vjp
    def clip(x):
        return jnp.clip(x, -1, 1)

    return lib.grad(clip)(1.0)


@mistake("forward mode of a custom_vjp", "it works: the rule is followed in forward mode")
def _(lib: Any) -> Any:
    @lib.custom_vjp
    def clip(x):
        return jnp.clip(x, -1, 1)

    clip.defvjp(lambda x: (clip(x), x), lambda x, g: (g,))
    return lib.jvp(clip, (0.5,), (1.0,))


@mistake("a pure_callback in a loss", "why, the line, and a second way out")
def _(lib: Any) -> Any:
    def loss(x):
        y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x)
        return y * x

    return lib.grad(loss)(jnp.float32(1.0))


@mistake("a transpose of what is not linear", "that the function is not linear, and what to do instead")
def _(lib: Any) -> Any:
    def f(x):
        return jnp.sin(x) * 2

    return lib.linear_transpose(f, jnp.float32(1.0))(jnp.float32(1.0))
