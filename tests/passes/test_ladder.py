"""Ladders: the graph computes what ``vjp`` does, the rungs are what ``vjp`` keeps, names are the user's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.api.reverse import split
from fgrad.graph.check import check
from fgrad.graph.drawing.ladder import BACKWARD, FORWARD, GRADIENT, wires
from fgrad.graph.source import Source
from fgrad.jaxtypes import is_inexact
from fgrad.passes.ladder import ladder
from fgrad.run.executable import run
from tests.graph.drawing.models import MODELS
from tests.graph.programs import PROGRAMS, graph_of
from tests.oracle import compiled


def arrays(tree, seed=0):
    keys = iter(jax.random.split(jax.random.key(seed), 100))
    return jax.tree.map(lambda t: jax.random.normal(next(keys), t.shape, t.dtype), tree)


def made(fun, args):
    graph = fgrad.make_graph(fun)(*args)
    wrt = [i for i, t in enumerate(graph.in_types) if is_inexact(t)]
    return ladder(graph.core, wrt, graph.names, graph.out_names)


@pytest.mark.parametrize("name", MODELS)
def test_computes_values_and_gradients(name):
    fun, types = MODELS[name]
    args = arrays(types)
    found = made(fun, args)
    check(found.graph)
    value, gradients = compiled(jax.value_and_grad(fun, argnums=tuple(range(len(args)))))(*args)
    got = jax.jit(lambda *args: run(found.graph, args))(*jax.tree.leaves(args), jnp.ones(()))
    numbers = dict(zip(found.graph.outputs, got, strict=True))
    np.testing.assert_allclose(numbers[found.results[0].value], value, rtol=1e-5)
    for pair, expected in zip(found.arguments, jax.tree.leaves(gradients), strict=True):
        np.testing.assert_allclose(numbers[pair.partner], expected, rtol=1e-4, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize("name", MODELS)
def test_rungs_are_what_vjp_keeps(name):
    fun, types = MODELS[name]
    graph = fgrad.make_graph(fun)(*types)
    halves = split(graph.core, len(graph.out_names), len(graph.names)).halves
    found = made(fun, types)
    rungs = {wire.value for wire in wires(found) if wire.saved}
    kept = halves.unknown.in_types[: halves.num_residuals]
    assert sorted(map(found.bytes_of, rungs)) == sorted(t.size * t.dtype.itemsize for t in kept)


@pytest.mark.parametrize("name", sorted({*PROGRAMS} - {"while"}))
def test_every_node_stands_in_one_row(name):
    graph = graph_of(PROGRAMS[name])
    try:
        found = ladder(graph, [0], ["x"], [f"out{k}" for k in range(len(graph.outputs))])
    except fgrad.errors.MissingRuleError:
        pytest.skip("has no derivative")
    nodes = [k for row in found.rows for k in (*row.forward, *row.backward)]
    assert sorted(nodes) == list(range(len(found.graph)))
    check(found.graph)
    for wire in wires(found):
        assert wire.ends
        assert wire.side in (0, 1, 2)


def test_what_backward_fills_anew_stands_where_it_is_read():
    fun, types = MODELS["recurrent"]
    found = made(fun, types)
    assert not found.rows[0].backward
    loop = next(row for row in found.rows if found.graph.nodes[row.forward[0]].op.name == "scan")
    assert [found.graph.nodes[k].op.name for k in loop.backward].count("broadcast_in_dim") == 1


def test_names_are_the_users():
    fun, types = MODELS["perceptron"]
    found = made(fun, types)
    assert [pair.name for pair in found.arguments] == [
        "d perceptron / d params[0]['b']",
        "d perceptron / d params[0]['w']",
        "d perceptron / d params[1]['w']",
        "d perceptron / d x",
        "d perceptron / d y",
    ]
    names = {wire.name for wire in wires(found)}
    assert {"h", "err", "d perceptron / d h", "d perceptron / d err", "slope of tanh"} <= names


def test_each_derivative_stands_beside_its_operation():
    def loss(x):
        y = jnp.sin(x)
        for _ in range(2):
            y = jnp.tanh(y)
        return jnp.sum(y)

    found = made(loss, [jnp.ones(3)])
    nodes = found.graph.nodes
    own = [[nodes[k].op.name for k in row.forward if nodes[k].source.of is None] for row in found.rows]
    pairs = [(names, {nodes[k].source.of for k in row.backward}) for names, row in zip(own, found.rows, strict=True)]
    assert pairs == [(["sin"], {"sin"}), (["tanh"], {"tanh"}), (["tanh"], {"tanh"}), (["reduce_sum"], {"reduce_sum"})]


def test_an_operation_without_work_in_backward_passes_its_cotangent_on():
    def loss(x, y):
        total = jnp.sin(x) + jnp.cos(y)
        return jnp.sum(total * total)

    found = made(loss, [jnp.ones(3), jnp.ones(3)])
    row = next(r for r, row in enumerate(found.rows) if found.graph.nodes[row.forward[0]].op.name == "add")
    assert not found.rows[row].backward
    through = [wire for wire in wires(found) if (BACKWARD, row) in (wire.start, *wire.ends)]
    assert [wire.ends for wire in through if wire.start == (BACKWARD, row)] == [((BACKWARD, 0),), ((BACKWARD, 1),)]
    assert [wire.name for wire in through if (BACKWARD, row) in wire.ends] == ["d loss / d total"]


def test_a_gradient_that_nothing_computes_is_named_all_the_same():
    found = made(lambda x, unused: x * 2.0, [1.0, 2.0])
    assert [(pair.partner is None, pair.name) for pair in found.arguments] == [
        (False, "d output / d x"),
        (True, "d output / d unused"),
    ]


def test_an_integer_has_no_gradient():
    found = made(lambda x, n: x * n, [1.0, 2])
    assert found.arguments[1].partner is None
    assert found.arguments[1].name == ""


def test_sources_are_left_as_they_were():
    fun, types = MODELS["ode"]
    found = made(fun, types)
    assert {type(node.source) for node in found.graph.nodes} <= {Source, type(None)}


def test_wires_begin_at_makers_and_end_at_readers():
    fun, types = MODELS["block"]
    found = made(fun, types)
    for wire in wires(found):
        for place, k in wire.ends:
            row = found.rows[k] if place in (FORWARD, BACKWARD) else None
            if row is not None and wire.value not in [found.cotangents.get(i) for i in row.passes]:
                read = {i for n in (*row.forward, *row.backward) for i in found.graph.nodes[n].inputs}
                assert wire.value in read
            elif place == GRADIENT:
                assert found.arguments[k].partner == wire.value


def test_a_chain_of_many_operations_takes_no_time_that_grows_with_its_square():
    def chain(x):
        for _ in range(3000):
            x = jnp.sin(x)
        return x

    assert len(made(chain, [1.0]).rows) == 3000
