"""Outputs of regions that nobody reads, and what only they needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fgrad.graph.check import check
from fgrad.graph.graph import Graph, evaluate
from fgrad.passes.trim import trim
from fgrad.record.stager import stage_closed

pytestmark = pytest.mark.fast

X, W = np.float32([[1, 2], [3, 4]]), np.float32([5, 6])


def trimmed(function) -> Graph:
    """The trimmed graph, which gives what the whole gives."""
    graph = stage_closed(function, [jax.typeof(jnp.asarray(X)), jax.typeof(jnp.asarray(W))])
    found = trim(graph)
    check(found)
    for a, b in zip(evaluate(found, [X, W]), evaluate(graph, [X, W]), strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def region(graph: Graph, name: str):
    return next(node for node in graph.nodes if node.op.name == name)


def test_a_scan_loses_carries_and_slices_that_nobody_reads():
    def function(x, w):
        (a, _), (ys, _) = lax.scan(lambda c, each: ((c[0] + each, c[1] * w), (c[0], c[1])), (w, w), x)
        return [ys]

    node = region(trimmed(function), "scan")
    assert node.params["num_carry"] == 1 and len(node.out_types) == 2


def test_a_carry_stays_if_another_one_reads_it():
    def function(x, w):
        (a, _), _ = lax.scan(lambda c, each: ((c[0] + c[1], c[1] * each), ()), (w, w), x)
        return [a]

    assert region(trimmed(function), "scan").params["num_carry"] == 2


def test_a_branch_loses_operands():
    def function(x, w):
        first, _ = lax.cond(w[0] > 0, lambda a, b: (a + 1, b * 2), lambda a, b: (a - 1, b), x, w)
        return [first]

    node = region(trimmed(function), "cond")
    assert len(node.inputs) == 2 and len(node.out_types) == 1


def test_a_graph_without_regions_is_the_same_object():
    graph = stage_closed(lambda x: [jnp.sin(x)], [jax.typeof(jnp.asarray(W))])
    assert trim(graph) is graph
