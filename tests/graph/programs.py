"""Small functions whose graphs hold one of everything, and random programs, for the tests of this folder."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

from fgrad.graph.graph import Graph
from fgrad.record.stager import stage_closed


@jax.custom_jvp
def itself(x: Any) -> Any:
    """A function whose rule calls it again."""
    return jnp.sin(x)


@itself.defjvp
def _itself_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return itself(x), itself(x + jnp.pi / 2) * t


@jax.custom_vjp
def clipped(x: Any) -> Any:
    """The identity, with gradients clipped to one."""
    return x * 1.0


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct, -1.0, 1.0),))


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, t: (c * jnp.tanh(t) + 1.0, c), 1.0, x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sine": lambda x: jnp.sin(x) * 2.0,
    "scan": scanned,
    "cond": lambda x: lax.cond(x[0] > 0, lambda y: y * 2.0, lambda y: y - 1.0, x),
    # branches like no other test's: equal ones are one operation, with the lines of the first
    "switch": lambda x: lax.switch(jnp.int32(1), [lambda y: y * 1.125, lambda y: y**2 * 2.125, lambda y: y / 3.125], x),
    "while": lambda x: lax.while_loop(lambda y: jnp.sum(y) < 9.0, lambda y: y * 2.0 + 1.0, x),
    "scatter": lambda x: x.at[jnp.array([0, 2])].add(2.0),
    "gather": lambda x: x[jnp.array([2, 0, 2])],
    "reduce": lambda x: lax.reduce(x, -jnp.inf, lax.max, (0,)),
    "sort": lambda x: jnp.sort(x) + jnp.argsort(x),
    "product": lambda x: jnp.dot(x, x, precision=lax.Precision.HIGHEST),
    "fft": lambda x: jnp.abs(jnp.fft.fft(x)),
    "random": lambda x: x + jax.random.normal(jax.random.key(3), (3,)),
    "key": lambda x: x + jax.random.uniform(jax.random.split(jax.random.key(0))[0], (3,)),
    "bfloat16": lambda x: (x.astype(jnp.bfloat16) + jnp.ones(3, jnp.bfloat16)).astype(jnp.float32),
    "complex": lambda x: jnp.real(x * np.complex64(1 + 2j)),
    "constant": lambda x: jnp.dot(jnp.array([[1.0, np.nan, np.inf], [0.0, -0.0, 3.0]], jnp.float32), x),
    "remat": jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))),
    "solve": lambda x: jnp.linalg.solve(jnp.eye(3) * 2.0, x),
    "custom_jvp": lambda x: jax.nn.relu(x) + jax.nn.logsumexp(x),
    "itself": lambda x: itself(itself(x)),
    "custom_vjp": lambda x: clipped(x) * 3.0,
    "nothing": lambda x: x,
}


def graph_of(function: Callable[..., Any], *args: Any) -> Graph:
    """The flat graph of a function of a vector of three, unless other arguments are given."""
    args = args or (jnp.zeros(3),)
    return stage_closed(lambda *xs: jax.tree.leaves(function(*xs)), [jax.typeof(x) for x in args])


UNARY = (jnp.sin, jnp.exp, jnp.negative, jnp.cumsum, jnp.flip, lambda x: x[::-1] * 2, lambda x: x.astype(jnp.float16))
BINARY = (jnp.add, jnp.multiply, jnp.maximum, lambda x, y: jnp.where(x > 0, x, y), lambda x, y: x @ y + x)


@st.composite
def random_graphs(draw: Any) -> Graph:
    """Straight-line programs over vectors of three, with constants of odd values and scans between."""
    steps = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)), max_size=8))
    scalars = draw(st.lists(st.floats(width=32), min_size=1, max_size=3))
    loops = draw(st.booleans())

    def function(x: Any) -> Any:
        values = [x, jnp.array(scalars, jnp.float32)[0] * x]
        for kind, i, j in steps:
            one, two = values[i % len(values)], values[j % len(values)]
            found = UNARY[kind % 7](one) if kind % 2 else BINARY[kind % 5](one, two)
            values.append(found.astype(jnp.float32) * np.float32(scalars[kind % len(scalars)]))
        if loops:
            values.append(lax.scan(lambda c, t: (c + t, c * 2.0), jnp.float32(0), values[-1])[1])
        return values[-2:]

    return graph_of(function)
