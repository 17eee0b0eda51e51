"""Every node has the user's line: never one of JAX's or of this package."""

import linecache
import os

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
        assert {node.source and node.source.file for node in each.core} == {__file__}
        # equal loops of several programs are one operation, whose body has the lines of the first
        assert all("/tests/" in node.source.file for node in nodes(each.core) if node.source)


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


def layer(x):
    y = jnp.sin(x)
    z = y * x
    return jnp.sum(z)


#: NOTE [Frames that stand for lines]
LINES = [layer.__code__.co_firstlineno + k for k in (1, 2, 3)]


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, fgrad.jit, fgrad.grad, fgrad.vmap])
def test_the_lines_within_a_function_compiled_by_fgrad(transform):
    graph = fgrad.make_graph(transform(lambda x: fgrad.jit(layer)(x)))(X)
    assert {node.source.line for node in graph.core} <= {*LINES}


def test_the_names_within_a_function_compiled_by_fgrad():
    graph = fgrad.make_graph(lambda x: fgrad.jit(layer)(x))(X)
    assert graph.values["y"].type == graph.in_types[0]


def test_jax_keeps_the_lines_of_a_function_compiled_by_fgrad():
    listing = jax.make_jaxpr(fgrad.jit(layer))(X).pretty_print(source_info=True)
    program = fgrad.jit(fgrad.grad(layer)).lower(X).compile().as_text()
    for line in LINES:
        assert f"test_source.py:{line}:" in listing
    assert f"line={LINES[0]} " in program


def test_equal_code_in_two_files_stays_apart(tmp_path):
    made = []
    for name in ("one.py", "two.py"):
        path = tmp_path / name
        path.write_text("import jax.numpy as jnp\ndef f(x):\n    return jnp.cos(x)\n")
        names = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        made.append(names["f"])
    for f, name in zip(made, ("one.py", "two.py"), strict=True):
        graph = fgrad.make_graph(fgrad.jit(f))(X)
        assert {os.path.basename(node.source.file) for node in graph.core} == {name}


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


def first(x):
    return jnp.sin(x) * 2.0


def second(x):
    y = jnp.sin(x)
    return y * 2.0


def pulled(f):
    _, pull = fgrad.vjp(f, X)
    return pull


def pushed(f):
    _, push = fgrad.linearize(f, X)
    return push


@pytest.mark.parametrize(
    "transform",
    [
        pulled,
        pushed,
        lambda f: fgrad.grad(lambda x: jnp.sum(f(x))),
        lambda f: lambda x: fgrad.jvp(f, (x,), (x,)),
        lambda f: fgrad.jacrev(f),
        lambda f: lambda x: fgrad.grad(lambda w: jnp.sum(f(w * x)))(2.0),
    ],
)
def test_equal_functions_have_lines_of_their_own(transform):
    """They share what is compiled."""
    for f in (first, second, second):
        derived = transform(f)
        graph = fgrad.make_graph(derived)(X)
        start = f.__code__.co_firstlineno
        own = {node.source.line for node in graph.core if node.source and node.source.function == f.__name__}
        assert own and own <= {start + 1, start + 2}
        others = {first, second} - {f}
        assert not {node.source.function for node in graph.core if node.source} & {g.__name__ for g in others}


def test_a_string_that_was_executed_has_no_text():
    """Many strings share the name ``<string>``; what Python 3.13 knows by it is the text of ``python -c``."""
    linecache.cache["<string>"] = (0, None, ["not this\n", "nor this\n"], "<string>")
    try:
        scope = {"jnp": jnp}
        exec("def f(x):\n    return jnp.log(x)", scope)
        source = next(iter(fgrad.make_graph(scope["f"])(1.0))).source
        assert (source.file, source.line, source.text) == ("<string>", 2, "")
        assert "in log, at <string>:2, in f.\n" in str(fgrad.nonfinite(scope["f"])(0.0))
    finally:
        del linecache.cache["<string>"]
