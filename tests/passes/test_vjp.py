"""The walks of reverse mode, and transposes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgrad import errors
from fgrad.graph.check import check
from fgrad.graph.graph import Builder, Graph, evaluate
from fgrad.passes.local import tangent_type
from fgrad.passes.vjp import backward, forward, pullback, transpose
from fgrad.record.stager import stage_closed

pytestmark = pytest.mark.fast

X, Y = np.float32([1, 2, 3]), np.float32([3, 1, 2])


def graph_of(function, *values: np.ndarray) -> Graph:
    return stage_closed(function, [jax.typeof(jnp.asarray(x)) for x in values])


def test_cotangents_of_one_value_are_added_up():
    graph = graph_of(lambda x: (lambda y: [y, y])(jnp.sin(x)), X)
    builder = Builder(graph.in_types)
    seeds = [(i, builder.input(tangent_type(graph.types[i]))) for i in graph.outputs]
    walk = forward(builder, graph, builder.inputs[:1], [0], [i for i, _ in seeds])
    found = builder.finish([backward(walk, seeds)[0]])
    np.testing.assert_allclose(evaluate(found, [X, X, Y])[0], np.cos(X) * (X + Y), rtol=1e-6)


def test_what_does_not_vary_gets_no_cotangent():
    graph = graph_of(lambda x, y: [jnp.floor(x) + y], X, Y)
    builder = Builder(graph.in_types)
    seeds = [(graph.outputs[0], builder.input(graph.in_types[0]))]
    walk = forward(builder, graph, builder.inputs[:2], [0, 1], [graph.outputs[0]])
    cts = backward(walk, seeds)
    assert 0 not in cts and 1 in cts


def test_a_pullback_is_worked_out_once():
    node = graph_of(lambda x: [jnp.sin(x)], X).nodes[0]
    assert pullback(node.op, (True,), (True,)) is pullback(node.op, (True,), (True,))


def test_a_transpose_takes_the_other_inputs_and_the_cotangents():
    graph = graph_of(lambda a, x, b: [a * x - x[::-1] * b], X, Y, X)
    found, results = transpose(graph, [1], [0])
    check(found)
    assert results == (0,) and len(found.in_types) == 3
    expected = X * Y - (Y * X)[::-1]
    np.testing.assert_allclose(evaluate(found, [X, X, Y])[0], expected, rtol=1e-6)


def test_an_input_that_nothing_reads_has_no_cotangent():
    _, results = transpose(graph_of(lambda x, y: [2 * y], X, Y), [0, 1], [0])
    assert results == (None, 0)


@pytest.mark.parametrize("function", [jnp.sin, lambda x: x * x, jnp.floor], ids=["sin", "square", "floor"])
def test_what_is_not_linear_has_no_transpose(function):
    with pytest.raises(errors.NotLinearError):
        transpose(graph_of(lambda x: [function(x)], X), [0], [0])
