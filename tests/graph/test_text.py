"""The listing of a graph: readable, typed, and a function of the structure alone."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.graph.graph import Builder, Const
from fgrad.graph.op import intern
from fgrad.graph.text import const_text, node_text, render, type_text
from fgrad.jaxcore import primitive
from fgrad.passes.simplify import simplify
from tests.graph.programs import PROGRAMS, graph_of

pytestmark = pytest.mark.fast


def test_listing_of_a_small_function():
    graph = simplify(graph_of(lambda x, w: (jnp.tanh(x @ w) * 2.0, x), jnp.zeros(3), jnp.zeros((3, 2))))
    assert render(graph, ["x", "p['w']"], source=False).splitlines() == [
        "graph(%0 x: f32[3], %1 p['w']: f32[3,2]) -> (f32[2], f32[3]):",
        "    %3: f32[2] = dot_general[dimension_numbers=(((0,), (0,)), ((), ())), preferred_element_type=f32] %0 %1",
        "    %4: f32[2] = tanh %3",
        "    %5: f32[2] = mul %4 2.0",
        "    return %5, %0",
    ]


def test_nodes_say_their_line_and_what_they_are_derivatives_of():
    text = render(graph_of(lambda x: fgrad.grad(lambda y: jnp.sum(jnp.sin(y) * 11.5))(x)))
    (line,) = [line for line in text.splitlines() if " = cos " in line]
    assert "# test_text.py:" in line
    assert line.endswith("derivative of sin")


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_graphs_print_the_same_but_for_sources(name):
    graphs = [graph_of(PROGRAMS[name]) for _ in range(2)]
    texts = [render(g, source=False) for g in graphs]
    assert texts[0] == texts[1]
    assert " at 0x" not in texts[0]
    assert "#" not in texts[0].replace("[#", "").split(" const ")[0]


def test_graphs_inside_nodes_are_indented_beneath():
    lines = render(graph_of(PROGRAMS["scan"]), source=False).splitlines()
    at = next(i for i, line in enumerate(lines) if " scan[" in line)
    assert lines[at + 1].startswith("        body(%0: ")
    assert lines[at + 2].startswith("            %")
    assert any("branches[1](" in line for line in render(graph_of(PROGRAMS["cond"])).splitlines())


def test_constants_are_shortened_and_told_apart():
    one, two = np.arange(100.0, dtype=np.float32), np.arange(100.0, dtype=np.float32)
    two[70] = 0
    texts = [const_text(Const.of(jnp.asarray(x))) for x in (one, two)]
    assert all(t.startswith("[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, ...] #") for t in texts)
    assert texts[0] != texts[1]
    assert const_text(Const.of(jax.random.key(7))) == "[0, 7]"


def test_types():
    assert type_text(jax.typeof(jnp.zeros((2, 3), jnp.bfloat16))) == "bf16[2,3]"
    assert type_text(jax.typeof(jnp.zeros((), jnp.float8_e4m3fn))) == "f8_e4m3fn[]"
    assert type_text(jax.typeof(np.zeros(2, bool))) == "bool[2]"
    assert type_text(jax.typeof(jax.random.key(0))) == "key<fry>[]"


def chain(length):
    builder = Builder([jax.typeof(jnp.zeros(3))])
    op = intern(primitive("sin"), {"accuracy": None}, builder.types)
    number = 0
    for _ in range(length):
        number = builder.emit(op, (number,))
    return builder.finish([number])


@pytest.mark.slow
def test_a_hundred_thousand_nodes_print_and_are_cut():
    graph = chain(100_000)
    start = time.perf_counter()
    assert len(render(graph).splitlines()) == 100_002
    assert time.perf_counter() - start < 20
    lines = render(graph, limit=4).splitlines()
    assert lines[3] == "    ... 99,996 nodes left out ..."
    assert len(lines) == 7


def test_one_node():
    assert node_text(simplify(graph_of(PROGRAMS["sine"])), 1, source=False) == "%3: f32[3] = mul %2 2.0"


def test_effects_without_outputs_have_a_line():
    assert "debug_" in render(graph_of(lambda x: jax.debug.print("{}", x) or x))


def test_names_of_a_policy_are_in_order():
    """A set's own order differs from process to process."""
    block = fgrad.checkpoint(jnp.sin, policy=fgrad.checkpoint_policies.save_only_these_names("c", "a", "b", "d"))
    assert "policy=Names(names={a, b, c, d}, listed=True, unnamed=False)" in str(fgrad.make_graph(block)(1.0))
