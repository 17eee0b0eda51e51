"""Ladders of graphs as they are: derivatives are found by their lines, gradients by their names."""

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.drawing.ladder import BACKWARD, GRADIENT, ladder_of, shorter, wires
from tests.graph.drawing.models import MODELS
from tests.graph.programs import PROGRAMS, graph_of
from tests.graph.test_text import chain


def of(graph):
    return ladder_of(graph.core, graph.names, graph.out_names)


def names(found):
    nodes = found.graph.nodes
    return [([nodes[k].op.name for k in row.forward], [nodes[k].source.of for k in row.backward]) for row in found.rows]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_node_stands_in_one_row(name):
    found = ladder_of(graph_of(PROGRAMS[name]))
    nodes = [k for row in found.rows for k in (*row.forward, *row.backward)]
    assert sorted(nodes) == list(range(len(found.graph)))


@pytest.mark.parametrize("name", MODELS)
def test_backward_goes_up(name):
    fun, types = MODELS[name]
    found = of(fgrad.make_graph(fun)(*types).grad(tuple(range(len(types)))))
    assert any(row.backward for row in found.rows)
    for wire in wires(found):
        if wire.start[0] == BACKWARD:
            assert all(row <= wire.start[1] for place, row in wire.ends if place == BACKWARD)


def test_a_derivative_stands_beside_its_operation():
    def loss(x):
        y = jnp.tanh(x)
        z = jnp.exp(y)
        return jnp.sum(z * z)

    found = of(fgrad.make_graph(loss)(jnp.ones(3)).grad())
    assert names(found)[:2] == [(["tanh"], ["tanh"] * 4), (["exp"], ["exp"])]


def test_turns_of_a_loop_are_told_apart():
    def loss(x):
        for _ in range(3):
            x = jnp.exp(jnp.tanh(x))
        return jnp.sum(x)

    found = of(fgrad.make_graph(loss)(jnp.ones(3)).grad())
    turn = [(["tanh"], {"tanh"}), (["exp"], {"exp"})]
    assert [(forward, set(back)) for forward, back in names(found)][:4] == turn * 2


def test_a_derivative_whose_operation_is_gone_has_a_row_of_its_own():
    found = of(fgrad.make_graph(lambda x: jnp.sum(jnp.sin(x)))(jnp.ones(3)).grad())
    assert names(found) == [([], ["sin"])]
    assert found.arguments[0].partner is not None


def test_gradients_stand_with_their_arguments():
    fun, types = MODELS["perceptron"]
    found = of(fgrad.make_graph(fun)(*types).grad())
    assert [pair.name for pair in found.arguments] == [
        "d perceptron / d params[0]['b']",
        "d perceptron / d params[0]['w']",
        "d perceptron / d params[1]['w']",
        "",
        "",
    ]
    assert found.results == ()


def test_a_gradient_that_is_a_value_of_the_forward_pass():
    found = of(fgrad.make_graph(lambda w, x: w * x)(1.0, 2.0).value_and_grad())
    assert [pair.name for pair in found.arguments] == ["d output / d w", ""]
    row = next(r for r, row in enumerate(found.rows) if found.graph.nodes[row.forward[0]].op.name == "mul")
    assert [(wire.name, wire.start, wire.ends) for wire in wires(found) if wire.ends[0][0] == GRADIENT] == [
        ("d output / d w", (BACKWARD, row), ((GRADIENT, 0),))
    ]


def test_what_uses_a_derivative_is_forward():
    found = of(fgrad.make_graph(lambda x: jnp.exp(fgrad.grad(jnp.sin)(x)))(1.0))
    assert not any(row.backward for row in found.rows)


def test_the_middle_of_a_long_one_is_left_out():
    found = shorter(ladder_of(chain(5000)), 100)
    assert (len(found.rows), found.left_out) == (100, 4900)
    assert [row.forward for row in (found.rows[0], found.rows[-1])] == [(0,), (4999,)]
