"""Values of two graphs that correspond are paired, whatever stands between them."""

import time

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings

import fgrad
from fgrad.graph.alignment import align
from tests.graph.programs import PROGRAMS, graph_of, random_graphs


def flat(function, *args):
    return fgrad.make_graph(function)(*(args or (jnp.zeros(3),))).core


def by_operation(one, other):
    """The pairs as names of the operations that made the values."""
    names = []
    for graph in (one, other):
        lead = ["input"] * len(graph.in_types) + ["const"] * len(graph.consts)
        names.append([*lead, *[node.op.name for node in graph for _ in node.out_types]])
    return [(names[0][a], names[1][b]) for a, b in align(one, other)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_is_aligned_with_itself(name):
    graph = graph_of(PROGRAMS[name])
    assert align(graph, graph_of(PROGRAMS[name])) == tuple((i, i) for i in range(len(graph.types)))


@settings(max_examples=40, deadline=None)
@given(random_graphs(), random_graphs())
def test_pairs_are_of_one_type_and_unique(one, other):
    pairs = align(one, other)
    assert len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})
    assert all(one.types[a] == other.types[b] for a, b in pairs)


def test_what_was_put_in_has_no_partner():
    one = flat(lambda x: jnp.sum(jnp.tanh(jnp.sin(x))))
    other = flat(lambda x: jnp.sum(jnp.tanh(jnp.exp(jnp.sin(x)))))
    assert by_operation(one, other) == [("input", "input"), ("sin", "sin"), ("tanh", "tanh"), ("reduce_sum",) * 2]


def test_a_changed_operation_has_the_one_at_its_place():
    one = flat(lambda x: jnp.sum(jnp.tanh(jnp.sin(x)) * x))
    other = flat(lambda x: jnp.sum(jnp.tanh(jnp.cos(x)) * x))
    assert ("sin", "cos") in by_operation(one, other)
    assert len(align(one, other)) == len(one.types)


def test_a_changed_constant_has_the_other_one():
    one, other = flat(lambda x: jnp.sin(x) * jnp.float32(2.0)), flat(lambda x: jnp.sin(x) * jnp.float32(3.0))
    assert ("const", "const") in by_operation(one, other)


def test_moved_operations_find_each_other():
    one = flat(lambda x: (jnp.sin(x), jnp.cos(x), jnp.exp(x)))
    other = flat(lambda x: (lambda c, e, s: (s, c, e))(jnp.cos(x), jnp.exp(x), jnp.sin(x)))
    assert one != other
    assert by_operation(one, other) == [(n, n) for n in ("input", "sin", "cos", "exp")]


def test_one_more_layer_in_a_loop():
    def net(count):
        def f(x, w):
            for _ in range(count):
                x = jnp.tanh(x @ w)
            return jnp.sum(x)

        return flat(f, jnp.zeros(3), jnp.zeros((3, 3)))

    one, other = net(5), net(6)
    assert len(align(one, other)) == len(one.types)


def test_two_changes_far_apart():
    def f(first, last):
        def g(x):
            x = jnp.sin(first(x))
            for _ in range(4):
                x = jnp.tanh(x) + x
            return jnp.sum(last(jnp.cos(x)))

        return g

    one, other = flat(f(jnp.exp, jnp.log1p)), flat(f(jnp.expm1, jnp.log))
    assert len(align(one, other)) == len(one.types)
    assert ("exp", "expm1") in by_operation(one, other)
    assert ("log1p", "log") in by_operation(one, other)


def test_graphs_with_nothing_in_common():
    assert align(flat(lambda x: jnp.sin(x)), flat(lambda x: x @ x, jnp.zeros((2, 2)))) == ()


def test_long_graphs_take_little_time():
    def chain(start):
        def f(x):
            x = start(x)
            for _ in range(2000):
                x = jax.lax.sin(x)
            return jnp.exp(x)

        return flat(f, jnp.float32(0))

    one, other = chain(jnp.cos), chain(jnp.tan)
    start = time.perf_counter()
    assert len(align(one, other)) == len(one.types)
    assert time.perf_counter() - start < 5
