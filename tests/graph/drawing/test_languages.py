"""DOT and Mermaid: text that could be taken for markup is escaped, and every arrow joins two boxes."""

import random
import re

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.drawing.ladder import ladder_of
from fgrad.graph.drawing.languages import MERMAID_EDGES, picture, to_dot, to_mermaid
from fgrad.graph.drawing.svg import LIGHT
from tests.graph.drawing.models import MODELS
from tests.graph.drawing.test_svg import ODD
from tests.graph.programs import PROGRAMS, graph_of
from tests.graph.test_text import chain


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrows_join_boxes(name):
    drawn = picture(ladder_of(graph_of(PROGRAMS[name])))
    names = [name for name, _ in drawn.boxes]
    assert len(set(names)) == len(names)
    assert {end for edge in drawn.edges for end in (edge.start, edge.end)} <= {*names}


def test_forward_and_backward_stand_side_by_side():
    fun, types = MODELS["perceptron"]
    drawn = picture(fgrad.draw(fun)(*types).ladder, "operation")
    kinds = {name: box.kind for name, box in drawn.boxes}
    kinds_of = [kinds[name] for name in drawn.rows[0]]
    assert kinds_of == ["argument", "argument", "forward", "backward", "gradient", "gradient"]
    labels = {(kinds[edge.start], edge.label) for edge in drawn.edges if edge.side == 1}
    assert labels == {
        ("argument", "params[0]['w'], 48 B"),
        ("argument", "params[1]['w'], 32 B"),
        ("argument", "x, 60 B"),
        ("forward", "h#2, 80 B"),
        ("forward", "slope of tanh, 80 B"),
        ("forward", "slope of integer_pow, 40 B"),
    }


def test_dot_quotes_and_clusters():
    text = to_dot(ladder_of(graph_of(PROGRAMS["scan"]), [ODD]))
    assert 'label="p[\'a\\"b<c>&|#\']\\nf32[3]"' in text
    assert "subgraph cluster_" in text
    assert text.count("{") == text.count("}")
    for line in text.splitlines():
        assert len(re.findall(r'(?<!\\)"', line)) % 2 == 0


def test_mermaid_escapes_what_it_could_read():
    text = to_mermaid(ladder_of(graph_of(PROGRAMS["sine"]), [ODD]))
    assert "a0_0[\"p['a#34;b#60;c#62;#38;#124;#35;']<br>f32[3]\"]:::argument" in text
    assert f"classDef forward fill:{LIGHT['forward'][0]}" in text


def test_mermaid_says_when_there_are_more_edges_than_it_draws():
    assert "%%" not in to_mermaid(ladder_of(chain(10)))

    def mixed(x):
        order = random.Random(0)
        for _ in range(250):
            x = order.choice([jnp.sin, jnp.cos, jnp.tan, jnp.exp])(x)
        return x * x

    found = fgrad.draw(mixed)(1.0)
    assert f"Mermaid draws {MERMAID_EDGES}" in found.to_mermaid(detail="operation").splitlines()[1]
