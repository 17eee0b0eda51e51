"""The public graph: made from a function, called as the function, differentiated, compared, kept."""

import copy
import pickle
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.api.files import load
from fgrad.api.graphs import Graph, make_graph
from fgrad.errors import ArgumentTypeError, GraphArgumentError, GraphFileError, NotConcreteError
from fgrad.graph.saving import dump

pytestmark = pytest.mark.fast

PARAMS = {"w": jnp.array([[0.1, -0.2], [0.3, 0.4], [0.5, 0.6]]), "b": jnp.array([0.1, 0.2])}
X = jnp.array([1.0, -2.0, 3.0])
Pair = namedtuple("Pair", "first second")


def model(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def loss(params, x):
    return jnp.sum(model(params, x) ** 2)


GRAPH = make_graph(loss)(PARAMS, X)


def close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), a, b)


def test_runs_as_the_function():
    close(GRAPH(PARAMS, X), loss(PARAMS, X))
    close(GRAPH({k: np.asarray(v) for k, v in PARAMS.items()}, np.asarray(X)), loss(PARAMS, X))
    assert GRAPH.names == ("params['b']", "params['w']", "x")


def test_made_from_types_alone():
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (PARAMS, X))
    assert make_graph(loss)(*types) == GRAPH


def test_pytrees_in_and_out():
    graph = make_graph(lambda x, *rest, scale: {"y": (x * scale, None), "z": [rest[0]]})(X, X, scale=2.0)
    assert graph.names == ("x", "rest[0]", "scale")
    out = graph(X, X + 1, scale=3.0)
    close(out, {"y": (X * 3, None), "z": [X + 1]})


def test_numbers_take_the_type_of_the_input():
    graph = make_graph(lambda x, y: x * y)(jnp.float32(1), 2.0)
    for args in [(2, 3), (2.0, 3), (np.float32(2), jnp.float32(3)), (jnp.asarray(2), 3)]:
        out = graph(*args)
        assert out == 6.0
        assert out.dtype == jnp.float32


def test_static_arguments_are_part_of_the_graph():
    graphs = [make_graph(lambda x, n, y: x**n + y, static_argnums=1)(X, n, X) for n in (2, 3)]
    assert graphs[0] != graphs[1]
    close(graphs[1](X, X), X**3 + X)
    assert make_graph(lambda n, x: x**n, static_argnums=(-2,))(2, X)(X).shape == (3,)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ((PARAMS,), ["structure", "expected", "got"]),
        (({"w": PARAMS["w"]}, X), ["structure"]),
        ((PARAMS, X[:2]), ["The argument x has", "f32[3]", "f32[2]"]),
        (({**PARAMS, "b": jnp.zeros(2, jnp.int32)}, X), ["params['b']", "f32[2]", "i32[2]"]),
        ((PARAMS, 1.0), ["x", "~f32[]"]),
        ((PARAMS, jnp.zeros(3, jnp.complex64)), ["c64[3]"]),
    ],
)
def test_arguments_that_do_not_fit(args, parts):
    with pytest.raises(GraphArgumentError) as caught:
        GRAPH(*args)
    for part in parts:
        assert part in str(caught.value)


def test_an_argument_that_is_no_array():
    with pytest.raises(ArgumentTypeError, match="x"):
        GRAPH(PARAMS, "text")
    with pytest.raises(ArgumentTypeError, match=r"params\['w'\]"):
        make_graph(loss)({"w": "text", "b": X}, X)
    with pytest.raises(ArgumentTypeError, match="output"):
        make_graph(lambda x: "text")(1.0)
    with pytest.raises(TypeError, match="takes a function"):
        make_graph(3)


def test_branching_on_a_value_is_an_error():
    with pytest.raises(NotConcreteError):
        make_graph(lambda x: x if x > 0 else -x)(1.0)


def test_under_transformations():
    expected = jax.grad(loss)(PARAMS, X)
    close(fgrad.grad(GRAPH)(PARAMS, X), expected)
    close(jax.grad(GRAPH)(PARAMS, X), expected)
    close(jax.jit(fgrad.grad(GRAPH))(PARAMS, X), expected)
    rows = jnp.stack([X, -X])
    close(jax.vmap(GRAPH, (None, 0))(PARAMS, rows), jax.vmap(loss, (None, 0))(PARAMS, rows))
    close(make_graph(lambda p: GRAPH(p, X))(PARAMS)(PARAMS), loss(PARAMS, X))


def test_derived_graphs():
    close(GRAPH.grad()(PARAMS, X), jax.grad(loss)(PARAMS, X))
    close(GRAPH.grad((0, 1))(PARAMS, X), jax.grad(loss, (0, 1))(PARAMS, X))
    close(GRAPH.grad(1).vjp()((PARAMS, X), X)[1], jax.vjp(jax.grad(loss, 1), PARAMS, X)[1](X))
    close(GRAPH.value_and_grad(1)(PARAMS, X), jax.value_and_grad(loss, 1)(PARAMS, X))
    close(GRAPH.jvp()((PARAMS, X), (PARAMS, X)), jax.jvp(loss, (PARAMS, X), (PARAMS, X)))
    assert GRAPH.grad().names == GRAPH.names
    assert {n.source.of for n in GRAPH.grad() if n.source} > {None, "tanh", "dot_general"}
    for graph in (GRAPH, GRAPH.grad(), GRAPH.jvp(), GRAPH.vjp()):
        assert graph.check() is graph
        assert len(graph.simplify()) <= len(graph)


def test_integers_have_float0_derivatives():
    graph = make_graph(lambda x, i: x[i])(X, 1)
    output, (x, i) = graph.vjp()((X, 2), 1.0)
    assert (output, i.dtype) == (3.0, jax.dtypes.float0)
    close(x, jnp.array([0.0, 0.0, 1.0]))
    close(graph.jvp()((X, 2), (X, np.zeros((), jax.dtypes.float0))), (3.0, 3.0))


def test_keywords_cannot_be_primals():
    graph = make_graph(lambda x, *, y: x * y)(1.0, y=2.0)
    assert graph.grad()(1.0, y=2.0) == 2.0
    with pytest.raises(TypeError, match=r"keywords \('y',\)"):
        graph.vjp()


def test_equality_and_hash_are_structural():
    other = make_graph(lambda p, z: jnp.sum(jnp.tanh(z @ p["w"] + p["b"]) ** 2))(PARAMS, X)
    assert other == GRAPH
    assert other.names != GRAPH.names
    assert len({other, GRAPH}) == 1
    assert make_graph(lambda p, x: [loss(p, x)])(PARAMS, X) != GRAPH
    assert make_graph(lambda x: x * 2.0)(X) != make_graph(lambda x: x * 3.0)(X)


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        GRAPH.names = ()
    assert copy.copy(GRAPH) is GRAPH
    assert copy.deepcopy({"g": GRAPH})["g"] is GRAPH


def test_parts():
    assert len(GRAPH) == len(GRAPH.nodes) == len(list(GRAPH))
    assert [str(n.primitive) for n in GRAPH][:1] == ["dot_general"]
    assert [t.shape for t in GRAPH.in_types] == [(2,), (3, 2), (3,)]
    assert GRAPH.inputs == (0, 1, 2)
    assert [t.shape for t in GRAPH.out_types] == [()]
    assert len(GRAPH.outputs) == 1
    assert make_graph(lambda x: x)(X)


@pytest.mark.parametrize("options", [{"source": X}, {"source": None}, {"limit": -1}, {"limit": 1.5}, {"limit": True}])
def test_listings_with_wrong_options(options):
    (name,) = options
    with pytest.raises(TypeError, match=f"to_text: {name} "):
        fgrad.make_graph(jnp.sin)(X).to_text(**options)


def test_seen(tmp_path):
    assert str(GRAPH) == GRAPH.to_text()
    assert "%2 x: f32[3]" in repr(GRAPH)
    assert "test_graphs.py" in GRAPH.to_text()
    assert "test_graphs.py" not in GRAPH.to_text(source=False)
    assert GRAPH.to_dot().startswith("digraph")
    assert GRAPH.to_mermaid().startswith("flowchart")
    assert "<svg" in GRAPH._repr_html_()
    for make, name in ((GRAPH.to_svg, "g.svg"), (GRAPH.to_html, "g.html")):
        text = make(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text == make()
    assert '"ops"' in GRAPH.to_json()


def test_long_graphs_are_short_in_a_notebook():
    def function(x):
        for _ in range(300):
            x = jnp.sin(x)
        return x

    graph = make_graph(function)(1.0)
    assert "240 nodes left out" in repr(graph)
    assert "<svg" not in graph._repr_html_()
    assert len(str(graph).splitlines()) == 302


def test_saved_and_loaded(tmp_path):
    for graph in (GRAPH, GRAPH.grad(), GRAPH.vjp(), make_graph(lambda x, *, y: ({1: x, 2: [y, None]},))(1.0, y=2.0)):
        graph.save(tmp_path / "g.fgrad")
        found = load(tmp_path / "g.fgrad")
        assert found == graph
        assert found.names == graph.names
        assert isinstance(found, Graph)
    GRAPH.save(str(tmp_path / "g"))
    close(load(str(tmp_path / "g")).grad()(PARAMS, X), jax.grad(loss)(PARAMS, X))


def test_a_flat_file_is_loaded_with_flat_arguments(tmp_path):
    dump(GRAPH.core, tmp_path / "g")
    close(load(tmp_path / "g")(PARAMS["b"], PARAMS["w"], X), (loss(PARAMS, X),))


@pytest.mark.parametrize(
    "extra",
    [
        {"in": "*", "out": "*", "names": []},
        {"in": {"tuple": [{"tuple": ["*"]}, {"dict": []}]}, "out": "*", "names": ["x"]},
        {"in": {"class": ["*"]}},
        3,
    ],
)
def test_pytrees_that_do_not_fit(tmp_path, extra):
    dump(GRAPH.core, tmp_path / "g", extra)
    with pytest.raises(GraphFileError, match="pytrees"):
        load(tmp_path / "g")


def test_pytree_classes_are_pickled_but_not_saved(tmp_path):
    graph = make_graph(lambda p: Pair(p.second, p.first * 2.0))(Pair(X, 1.0))
    with pytest.raises(GraphFileError, match="Pair"):
        graph.save(tmp_path / "g")
    found = pickle.loads(pickle.dumps(graph))
    assert found == graph
    close(found(Pair(X, 1.0)), Pair(1.0, X * 2.0))
    assert pickle.loads(pickle.dumps(GRAPH)) == GRAPH


def test_jax_compiles_a_graph_without_printing_it(monkeypatch):
    printed = []
    monkeypatch.setattr(Graph, "to_text", lambda self, *args, **kwargs: printed.append(self) or "")
    assert float(jax.jit(GRAPH)(PARAMS, X)) == pytest.approx(float(loss(PARAMS, X)))
    assert not printed
