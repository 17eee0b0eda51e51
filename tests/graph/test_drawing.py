"""Drawings: every value has its arrow, derivatives their colour, and text that could be taken for markup is escaped."""

import itertools
import re
import xml.dom.minidom

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.drawing import COLOURS, MERMAID_EDGES, by_function, picture, to_dot, to_mermaid
from fgrad.graph.graph import Graph
from fgrad.graph.pages import svg, to_html, to_svg
from tests.graph.programs import PROGRAMS, graph_of
from tests.graph.test_text import chain

ODD = """p['a"b<c>&|#']"""


def layer(x, w):
    return jnp.tanh(x @ w)


def loss(x, w):
    return jnp.sum(layer(x, w) ** 2)


GRADIENT = graph_of(lambda x, w: fgrad.grad(loss, 1)(x, w), jnp.zeros(3), jnp.zeros((3, 2)))


def test_boxes_and_arrows():
    drawn = picture(GRADIENT, ["x", "w"])
    kinds = [box.kind for box in drawn.boxes]
    assert kinds.count("input") == 2
    assert kinds.count("output") == 1
    assert kinds.count("forward") + kinds.count("derivative") == len(GRADIENT)
    assert kinds.count("derivative") > 0
    assert drawn.boxes[0].label == "x: f32[3]"
    arguments = sum(len(n.inputs) for n in GRADIENT) + 1
    scalars = sum(i in range(2, 2 + len(GRADIENT.consts)) for n in GRADIENT for i in n.inputs)
    assert len(drawn.edges) == arguments - scalars
    assert {edge.label for edge in drawn.edges} <= {"f32[3]", "f32[3,2]", "f32[2]", "f32[]"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrows_go_forward_and_end_at_boxes(name):
    graph = graph_of(PROGRAMS[name])
    for drawn in (picture(graph), by_function(graph), picture(graph, None, 1)):
        order = {box.id: i for i, box in enumerate(drawn.boxes)}
        assert len(order) == len(drawn.boxes)
        assert all(order[edge.start] < order[edge.end] for edge in drawn.edges)


def test_by_function_joins_neighbours_of_one_function():
    drawn = by_function(GRADIENT, ["x", "w"])
    names = [box.label for box in drawn.boxes if box.kind in ("forward", "derivative")]
    assert any(name.startswith("layer (") for name in names)
    assert sum(int(re.search(r"\((\d+) node", name)[1]) for name in names) == len(GRADIENT)
    assert len(names) < len(GRADIENT)


def test_dot_quotes_and_clusters():
    text = to_dot(graph_of(PROGRAMS["scan"]), [ODD])
    assert 'label="p[\'a\\"b<c>&|#\']: f32[3]"' in text
    assert "subgraph cluster_" in text
    assert text.count("{") == text.count("}")
    for line in text.splitlines():
        assert len(re.findall(r'(?<!\\)"', line)) % 2 == 0


def test_mermaid_escapes_what_it_could_read():
    text = to_mermaid(GRADIENT, [ODD, "w"])
    assert "v0[\"p['a#34;b#60;c#62;#38;#124;#35;']: f32[3]\"]:::input" in text
    assert f"classDef derivative fill:{COLOURS['derivative'][0]}" in text
    assert ":::derivative" in text
    assert '-->|"f32[2]"|' in text


def test_mermaid_says_when_there_are_more_edges_than_it_draws():
    assert "%%" not in to_mermaid(GRADIENT)
    assert f"Mermaid draws {MERMAID_EDGES}" in to_mermaid(chain(600)).splitlines()[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_svg_is_well_formed_and_boxes_do_not_overlap(name):
    document = xml.dom.minidom.parseString(to_svg(graph_of(PROGRAMS[name]), [ODD]))
    rows: dict[str, list[tuple[float, float]]] = {}
    for box in document.getElementsByTagName("g"):
        if box.getAttribute("class") == "box":
            (rect,) = box.getElementsByTagName("rect")
            x, width = float(rect.getAttribute("x")), float(rect.getAttribute("width"))
            rows.setdefault(rect.getAttribute("y"), []).append((x, x + width))
    assert rows
    for row in rows.values():
        row.sort()
        assert all(a[1] < b[0] for a, b in itertools.pairwise(row))


def test_html_is_one_page_that_loads_nothing():
    page = to_html(graph_of(PROGRAMS["scan"]), [ODD], "a <title>")
    assert "<title>a &lt;title&gt;</title>" in page
    assert ODD not in page
    links = re.findall(r"(?:https?:)?//[^\s\"'<]+", page)
    assert set(links) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)", page)
    assert "scan" in page
    assert ": body</option>" in page
    assert page.count('<div class="view"') == 3
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_large_graphs_are_cut():
    assert "98,500 more nodes are left out" in to_svg(chain(100_000))
    assert len(to_html(chain(5000))) < 4_000_000


def test_empty_graph():
    drawn = picture(Graph((), (), (), ()))
    assert drawn.boxes == ()
    xml.dom.minidom.parseString(svg(drawn))
