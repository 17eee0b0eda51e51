"""Every node has the user's line: never one of JAX's or of this package."""

import jax
import jax.numpy as jnp
import pytest

import fgrad
import fgrad.nn
import fgrad.numpy
from fgrad.graph.text import subgraphs

X = jnp.array([[0.3, -0.2, 0.9], [0.1, 0.7, -0.4], [0.5, 0.6, 0.2]])


def looped(f):
    return lambda x: jax.lax.scan(lambda c, t: (c + jnp.sum(f(t)), f(t)), 0.0, x)


FUNCTIONS = {
    "softmax": jax.nn.softmax,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "logsumexp": jax.nn.logsumexp,
    "scipy": jax.scipy.special.logsumexp,
    "norm": jnp.linalg.norm,
    "variance": jnp.var,
    "determinant": jnp.linalg.det,
    "solve": lambda x: jnp.linalg.solve(x + 3 * jnp.eye(3), x),
    "median": jnp.median,
    "convolve": lambda x: jnp.convolve(x.ravel(), x[0]),
    "interpolate": lambda x: jnp.interp(x, x[0], x[1]),
    "associative": lambda x: jax.lax.associative_scan(jnp.multiply, x),
    "resize": lambda x: jax.image.resize(x, (5, 5), "linear"),
    "random": lambda x: x * jax.random.normal(jax.random.key(0), x.shape),
    "fast lane": lambda x: fgrad.numpy.mean(fgrad.nn.softmax(x)),
    "softmax in a loop": looped(jax.nn.softmax),
    "variance in a loop": looped(jnp.var),
    "norm in a loop": looped(jnp.linalg.norm),
    "jit of jit": jax.jit(jax.jit(jnp.std)),
    "map": lambda x: jax.lax.map(jnp.linalg.norm, x),
    "vmap": jax.vmap(jnp.var),
    "remat": jax.checkpoint(lambda x: jax.nn.gelu(jnp.var(x))),
}


def nodes(graph):
    for node in graph:
        yield node
        for _, inner in subgraphs(node):
            yield from nodes(inner)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_lines_are_the_users(name):
    function = FUNCTIONS[name]
    graph = fgrad.make_graph(lambda x: sum(jnp.sum(y) for y in jax.tree.leaves(function(x))))(X)
    for each in (graph, graph.grad(), graph.jvp()):
        assert all(node.source is not None for node in each.core)
        assert {node.source.file for node in nodes(each.core) if node.source} == {__file__}


def test_the_second_call_of_a_function_has_its_own_line():
    # JAX keeps what it traced at the first call
    first = fgrad.make_graph(lambda x: jnp.var(x) + jax.jit(jnp.std)(x))(X)
    second = fgrad.make_graph(lambda x: jnp.var(x) + jax.jit(jnp.std)(x))(X)
    lines = [{node.source.line for node in graph.core} for graph in (first, second)]
    assert len(lines[0]) == len(lines[1]) == 1
    assert lines[0] != lines[1]


def test_the_lines_within_a_compiled_function():
    @jax.jit
    def layer(x):
        y = jnp.sin(x)
        return jnp.linalg.norm(y)

    graph = fgrad.make_graph(lambda x: layer(x) * 2.0)(X).core
    lines = [node.source.line for node in graph]
    start = lines[0]
    assert sorted(set(lines)) == [start, start + 1, start + 3]


def test_functions_of_jax_between_lines_of_the_user():
    def f(x):
        y = x * 2.0
        z = jax.nn.softmax(y)
        return z - y

    graph = fgrad.make_graph(f)(X).core
    lines = [node.source.line for node in graph]
    assert lines == sorted(lines)
    assert len(set(lines)) == 3
    assert {node.source.function.rsplit(".", 1)[-1] for node in graph} == {"f"}
