"""Cutting a graph in two: together the halves do what the whole does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fgrad.graph.check import check
from fgrad.graph.graph import Graph, evaluate
from fgrad.passes.partition import Halves, partition
from fgrad.passes.simplify import simplify
from fgrad.record.stager import stage_closed

pytestmark = pytest.mark.fast

X, Y = np.float32([1, 2, 3]), np.float32([3, 1, 2])


def graph_of(function) -> Graph:
    return simplify(stage_closed(function, [jax.typeof(jnp.asarray(X)), jax.typeof(jnp.asarray(Y))]))


def cut(function, **named) -> Halves:
    """The halves of a function of (known, unknown), which are checked against the whole."""
    graph = graph_of(function)
    halves = partition(graph, [1], **named)
    check(halves.known)
    check(halves.unknown)
    first = evaluate(halves.known, [X])
    count = len(first) - halves.num_residuals
    known, late = iter(first[:count]), iter(evaluate(halves.unknown, [*first[count:], Y]))
    found = [next(late if yes else known) for yes in halves.is_unknown]
    for a, b in zip(found, evaluate(graph, [X, Y]), strict=True):
        np.testing.assert_array_equal(a, b)
    return halves


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_what_is_known_is_computed_in_the_first_half():
    halves = cut(lambda x, y: [jnp.sin(x) * y, jnp.cos(x)])
    assert names(halves.known) == ["cos", "sin"] or names(halves.known) == ["sin", "cos"]
    assert names(halves.unknown) == ["mul"]
    assert halves.is_unknown == (True, False) and halves.num_residuals == 1


def test_a_value_that_is_read_twice_is_one_residual():
    assert cut(lambda x, y: [jnp.sin(x) * y + jnp.sin(x)]).num_residuals == 1


def test_repeated_arrays_are_made_anew():
    halves = cut(lambda x, y: [jnp.zeros(3, jnp.float32) + y * x])
    assert halves.num_residuals == 1


def test_an_output_can_be_forced_into_the_second_half():
    halves = cut(lambda x, y: [jnp.sin(x), y], outputs=[True, True])
    assert names(halves.known) == ["sin"] and names(halves.unknown) == [] and halves.num_residuals == 1


def test_a_loop_is_cut_at_what_does_not_depend_on_the_unknown():
    def function(x, y):
        def body(carry, each):
            a, b = carry
            return (jnp.sin(a), b * a), a

        (a, b), _ = lax.scan(body, (x, y), None, length=3)
        return [a, b]

    halves = cut(function)
    assert names(halves.known) == ["scan"] and names(halves.unknown) == ["scan"]
    assert halves.is_unknown == (False, True)
