"""``draw``: one drawing of a function and its derivative, which prints, shows itself, and is written to files."""

import re
import xml.dom.minidom

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.api.graphs import make_graph
from tests.graph.drawing.models import MODELS


def loss(params, x):
    h = jnp.tanh(x @ params["w"])
    return jnp.sum(h * h)


ARGS = ({"w": jnp.ones((3, 2))}, jnp.ones((5, 3)))


def test_prints_as_a_table():
    assert str(fgrad.draw(loss)(*ARGS)).splitlines()[:3] == [
        "arguments    forward      saved                backward         gradients",
        "params['w']  dot_general  params['w']  24 B    d dot_general    d loss / d params['w']",
        "x                         x  60 B                               d loss / d x",
    ]


def test_is_written_to_files(tmp_path):
    drawing = fgrad.draw(loss)(*ARGS)
    for name in ("svg", "html", "dot", "mermaid"):
        path = tmp_path / f"loss.{name}"
        assert getattr(drawing, f"to_{name}")(path) == path.read_text(encoding="utf-8")
    xml.dom.minidom.parseString(drawing.to_svg())
    assert drawing._repr_svg_() == drawing._repr_html_() == drawing.to_svg()


def test_a_graph_is_written_to_files(tmp_path):
    graph = make_graph(loss)(*ARGS).grad()
    for name in ("svg", "html", "dot", "mermaid"):
        path = tmp_path / f"loss.{name}"
        assert getattr(graph, f"to_{name}")(path) == path.read_text(encoding="utf-8")
    assert "d loss / d params[&#x27;w&#x27;]" in graph.to_svg()


def test_argnums_say_what_has_a_gradient():
    drawing = fgrad.draw(loss, argnums=1)(*ARGS)
    assert [pair.name for pair in drawing.ladder.arguments] == ["", "d loss / d x"]


@pytest.mark.parametrize("argnums", [2, (0, -3)])
def test_argnums_out_of_range(argnums):
    with pytest.raises(ValueError, match="argnums"):
        fgrad.draw(loss, argnums=argnums)(*ARGS)


def test_is_false_where_there_is_nothing_to_draw():
    assert not fgrad.draw(lambda x: x)(1.0)
    assert fgrad.draw(loss)(*ARGS)


def test_several_results():
    drawing = fgrad.draw(lambda x: {"a": jnp.sin(x), "b": jnp.cos(x)})(1.0)
    assert [(pair.name, drawing.ladder.names[pair.partner]) for pair in drawing.ladder.results] == [
        ("output['a']", "d outputs / d output['a']"),
        ("output['b']", "d outputs / d output['b']"),
    ]


def test_a_branch_on_a_number():
    def bent(x):
        return jnp.sin(x) if x > 0 else jnp.cos(x)

    drawing = fgrad.draw(bent)(1.0)
    assert next(drawing.ladder.graph.nodes[k].op.name for row in drawing.ladder.rows for k in row.forward) == "sin"


def test_a_closed_over_array():
    w = jnp.ones((3, 3))
    text = str(fgrad.draw(lambda x: jnp.sum(x @ w))(jnp.ones(3)))
    assert re.search(r"^constant", text, re.MULTILINE)


def test_numbers_are_told_where_arguments_are_given():
    drawing = fgrad.draw(loss)(*ARGS)
    assert "norm" not in drawing.to_html()
    page = drawing.to_html(args=ARGS)
    assert "from 1 to 1, mean 1, norm 3.87298" in page
    assert "from 0.995055 to 0.995055" in page


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_drawn_before_anything_is_computed(name):
    fun, types = MODELS[name]
    assert fgrad.draw(fun)(*types)
