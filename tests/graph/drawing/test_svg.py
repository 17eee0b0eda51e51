"""The layout: boxes and labels do not overlap, no wire crosses a box, every value has one label."""

import itertools
import re
import xml.dom.minidom

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.drawing.folding import blocks, folded, visible
from fgrad.graph.drawing.ladder import ladder_of
from fgrad.graph.drawing.layout import arrange, columns, depth_of
from fgrad.graph.drawing.svg import to_svg
from fgrad.graph.drawing.units import results, unit, wired
from fgrad.graph.graph import Graph
from tests.graph.drawing.models import MODELS
from tests.graph.programs import PROGRAMS, graph_of
from tests.graph.test_text import chain

ODD = """p['a"b<c>&|#']"""


def laid_out(ladder, detail=None):
    """The boxes, the labels of rungs and the routes of a drawing, in its own coordinates."""
    wiring = wired(ladder)
    found = blocks(wiring.ladder)
    closed = folded(found, detail)
    units = [*[unit(wiring, each) for each in visible(found, closed)], *results(wiring)]
    space = columns(units, depth_of(found, closed), arrange(wiring, units).lanes)
    return arrange(wiring, units, space), space


def boxes_of(document):
    """Left, top, right and bottom of every box and label of a rung."""
    found = []
    for group in document.getElementsByTagName("g"):
        if not re.match("box|pill", group.getAttribute("class")):
            continue
        (rect,) = [e for e in group.childNodes if e.nodeName == "rect"]
        x, y, width, height = [float(rect.getAttribute(a)) for a in ("x", "y", "width", "height")]
        top = float(re.search(r"translate\(0 ([\d.]+)\)", group.parentNode.getAttribute("transform"))[1])
        found.append((x, y + top, x + width, y + top + height))
    return found


def crosses(a, b, box):
    """Whether a horizontal or vertical line runs through the inside of a box."""
    left, top, right, bottom = box
    return (
        min(a[0], b[0]) < right - 1
        and max(a[0], b[0]) > left + 1
        and min(a[1], b[1]) < bottom - 1
        and max(a[1], b[1]) > top + 1
    )


def is_well_laid_out(ladder, detail=None):
    arrangement, space = laid_out(ladder, detail)
    boxes = boxes_of(xml.dom.minidom.parseString(to_svg(ladder, detail)))
    assert boxes
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for box in boxes:
        assert 0 <= box[0] <= box[2] <= space.width
        assert 0 <= box[1] <= box[3] <= arrangement.height
    for route in arrangement.routes:
        for a, b in itertools.pairwise(route.corners):
            assert a[0] == b[0] or a[1] == b[1]
            assert not [box for box in boxes if crosses(a, b, box)]
    # no two wires run on top of each other in a lane
    lanes = [
        (route.wire, route.corners[1][0], *sorted((route.corners[1][1], route.corners[2][1])))
        for route in arrangement.routes
        if len(route.corners) == 4
    ]
    for (k, x, top, bottom), (j, x2, top2, bottom2) in itertools.combinations(lanes, 2):
        assert k == j or x != x2 or bottom < top2 or bottom2 < top


@pytest.mark.parametrize("detail", ["operation", "line", "function"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_well_laid_out(name, detail):
    fun, types = MODELS[name]
    is_well_laid_out(fgrad.draw(fun)(*types).ladder, detail)
    graph = fgrad.make_graph(fun)(*types).value_and_grad()
    is_well_laid_out(ladder_of(graph.core, graph.names, graph.out_names), detail)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_well_laid_out(name):
    is_well_laid_out(ladder_of(graph_of(PROGRAMS[name]), [ODD]))


def test_a_transformers_block_fits_a_page():
    fun, types = MODELS["block"]
    arrangement, space = laid_out(fgrad.draw(fun)(*types).ladder)
    # a page of A4 at 96 dots an inch is 794 by 1123: at 60 percent its letters are still 6.6 high
    assert space.width * 0.65 < 794
    assert arrangement.height * 0.65 < 1123


def test_what_is_held_and_what_is_saved_are_told_apart():
    fun, types = MODELS["perceptron"]
    text = to_svg(fgrad.draw(fun)(*types).ladder)
    labels = re.findall(r'class="pill saved( held)?"><title>([^:]+): [^,]+,', text.replace("f32[5,", "f32[5x"))
    assert {name for held, name in labels if held} == {"params[0][&#x27;w&#x27;]", "params[1][&#x27;w&#x27;]", "x"}
    assert {name for held, name in labels if not held} == {"h#2", "slope of tanh", "slope of integer_pow"}


def test_a_value_has_one_label():
    fun, types = MODELS["block"]
    text = to_svg(fgrad.draw(fun)(*types).ladder, "operation")
    labels = re.findall(r'class="label value"[^>]*>(\w+)  ', text)
    assert {"q", "k", "v", "mixed"} <= set(labels)
    assert len(labels) == len(set(labels))


def test_the_first_lines_of_an_image():
    text = to_svg(fgrad.draw(jnp.sin)(1.0).ladder)
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg" class="ladder" width=')
    assert "prefers-color-scheme:dark" in text


def test_large_graphs_are_cut():
    text = to_svg(ladder_of(chain(20_000)))
    assert "19,000 more operations are left out" in text
    assert len(text) < 4_000_000


def test_empty_graph():
    xml.dom.minidom.parseString(to_svg(ladder_of(Graph((), (), (), ()))))
