"""What repeats in a graph is found, whatever stands around it, and what is found does repeat."""

import random
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fgrad
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import intern
from fgrad.graph.repeats import Repeat, repeats, token
from fgrad.jaxcore import primitive

W = jnp.zeros((3, 3))


def graph_of(function, *args):
    return fgrad.make_graph(function)(*(args or (jnp.zeros(3),))).core


def shapes(found):
    return [(r.length, r.count) for r in found]


def layers(x, ws):
    for w in ws:
        x = jnp.tanh(x @ w) + x
    return jnp.sum(x)


def confirm(graph: Graph, found):
    """Whether every block does what the first one does, with its own values in the same places."""
    firsts = [len(graph.in_types) + len(graph.consts)]
    for node in graph.nodes:
        firsts.append(firsts[-1] + len(node.op.out_types))
    stop = 0
    for repeat in found:
        assert repeat.first >= stop
        stop = repeat.stop
        assert stop <= len(graph.nodes)
        for block in range(1, repeat.count):
            at = repeat.first + block * repeat.length
            begins = firsts[repeat.first], firsts[at]
            for k in range(repeat.length):
                one, two = graph.nodes[repeat.first + k], graph.nodes[at + k]
                assert token(one.op) == token(two.op)
                assert not repeat.exact or one.op.key == two.op.key
                inner = [[i - begin if i >= begin else None for i in node.inputs]
                         for node, begin in zip((one, two), begins, strict=True)]  # fmt: skip
                assert inner[0] == inner[1]
        confirm(graph, repeat.inner)


def test_a_loop_over_layers():
    graph = graph_of(layers, jnp.zeros(3), [W] * 7)
    found = repeats(graph)
    assert shapes(found) == [(3, 7)]
    confirm(graph, found)


def test_blocks_begin_where_the_loop_does():
    def f(x, ws):
        x = jnp.sin(x) + 1.0  # ends as a turn of the loop does
        for w in ws:
            x = x @ w
            x = jnp.tanh(x)
            x = x + 1.0
        return x

    (found,) = repeats(graph_of(f, jnp.zeros(3), [W] * 5))
    assert (found.first, found.length, found.count) == (3, 4, 5)


def test_slices_at_other_places_are_equal_but_not_exact():
    def f(xs):
        h = xs[0] * 0.0
        for t in range(6):
            h = jnp.tanh(h + xs[t])
        return h

    (found,) = repeats(graph_of(f, jnp.zeros((6, 2))))
    assert (found.length, found.count, found.exact) == (4, 6, False)


def test_a_loop_in_a_loop():
    def f(x):
        for _ in range(5):
            for _ in range(4):
                x = jnp.sin(x) * 2.0
            x = jnp.cumsum(x)
        return x

    (found,) = repeats(graph_of(f))
    assert (found.length, found.count) == (13, 5)
    assert found.inner == (Repeat(found.first, 3, 4),)


def test_forward_and_backward_repeat_apart():
    found = repeats(graph_of(lambda x, ws: fgrad.grad(layers)(x, ws), jnp.zeros(3), [W] * 9))
    assert len(found) == 2
    assert all(r.count >= 7 for r in found)


def test_the_same_operations_on_other_values_do_not_repeat():
    # add, mul, add, mul, ...: but who reads whom differs from turn to turn
    rng = random.Random(0)
    builder = Builder([jax.typeof(jnp.zeros(3))])
    values = list(builder.inputs)
    for i in range(40):
        op = intern(primitive("add" if i % 2 else "mul"), {} if i % 2 else {**mul_params()}, [builder.types[0]] * 2)
        values.append(builder.emit(op, (rng.choice(values[-6:]), rng.choice(values[-6:]))))
    graph = builder.finish(values[-6:])
    confirm(graph, repeats(graph))


def mul_params():
    (node,) = graph_of(lambda x: x * x)
    return node.params


def test_nothing_repeats():
    assert repeats(graph_of(lambda x: x)) == ()
    assert repeats(graph_of(lambda x: jnp.sin(x) + jnp.cos(x))) == ()


@pytest.mark.parametrize("steps", [2000])
def test_long_loops_take_little_time(steps):
    def f(x):
        for _ in range(steps):
            x = jnp.sin(x) * 2.0 + 1.0
        return x

    graph = graph_of(f)
    start = time.perf_counter()
    found = repeats(graph)
    assert time.perf_counter() - start < 5
    assert shapes(found) == [(5, steps)]


OPERATIONS = (
    lambda x, y: x + y,
    lambda x, y: jnp.sin(x),
    lambda x, y: x * y,
    lambda x, y: jnp.tanh(y),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6),
    st.integers(2, 5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4)), max_size=4),
)
def test_random_loops(body, count, before):
    def f(x):
        values = [x, x * 2.0, x * 3.0, x * 4.0]
        for kind, i, j in [*before, *body * count]:
            values.append(OPERATIONS[kind](values[-i], values[-j]))
        return values[-4:]

    graph = graph_of(f)
    found = repeats(graph)
    confirm(graph, found)
    # each value is made of a fixed number of values before it, so that the loop must be found where it is long enough
    if len(body) * (count - 2) >= 8 and len(graph) == 3 + len(before) + len(body) * count:
        assert sum(r.saved for r in found) >= len(body)


def test_values_of_operations_with_many_results():
    def f(x):
        for _ in range(4):
            q, r = jnp.linalg.qr(x)
            x = q @ r + 1.0
        return x

    graph = graph_of(f, W + np.eye(3, dtype=np.float32))
    found = repeats(graph)
    assert found
    assert found[0].count == 4
    confirm(graph, found)
