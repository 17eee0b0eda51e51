"""The user's names of values, read from the bytecode after the instruction that made them."""

import sys

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.names import stored_names, value_names
from fgrad.graph.source import Source


def place():
    """The names that the caller stores this call's result under."""
    frame = sys._getframe(1)
    return stored_names(Source(frame.f_code, frame.f_lasti))


class Thing:
    def __add__(self, other):
        frame = sys._getframe(1)
        return stored_names(Source(frame.f_code, frame.f_lasti))


GLOBAL = None


def stored_in_a_variable():
    h = place()
    return h  # noqa: RET504 (the store is what is read)


def stored_in_an_attribute():
    thing = Thing()
    thing.inner = Thing()
    thing.inner.h = place()
    return thing.inner.h


def stored_in_an_item():
    i, state = 3, {}
    state["w"] = place()
    state[i] = state["w"] + place()
    return state[i]


def stored_twice():
    h = other = place()
    return other or h


def stored_in_a_global():
    global GLOBAL
    GLOBAL = place()
    return GLOBAL


def stored_in_a_cell():
    h = place()
    return (lambda: h)()


def an_operator():
    h = Thing() + 1
    return h  # noqa: RET504


def an_operator_in_place():
    h = Thing()
    h += 1
    return h


def goes_into_something_else():
    h = (place(), 1)
    return h[0]


def is_returned():
    return place()


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (stored_in_a_variable, ("h",)),
        (stored_in_an_attribute, ("thing.inner.h",)),
        (stored_in_an_item, ("state['w']",)),
        (stored_twice, ("h",)),
        (stored_in_a_global, ("GLOBAL",)),
        (stored_in_a_cell, ("h",)),
        (an_operator, ("h",)),
        (an_operator_in_place, ("h",)),
        (goes_into_something_else, ()),
        (is_returned, ()),
    ],
)
def test_the_name_is_what_the_statement_stores(program, names):
    assert program()[: len(names) or None] == names


def test_parts_have_names_of_their_own():
    found = []

    def pair():
        frame = sys._getframe(1)
        found.append(stored_names(Source(frame.f_code, frame.f_lasti)))
        return 1, 2, 3

    _a, _b, _c = pair()
    thing = Thing()
    thing.first, _b, _c = pair()
    assert found == [("_a", "_b", "_c"), ("thing.first", "_b", "_c")]


def test_values_of_a_graph():
    def loss(params, x):
        h = x
        for w in params:
            z = h @ w
            h = jnp.tanh(z)
        q, k = jnp.split(h, 2)
        return jnp.sum(q * k)

    graph = fgrad.make_graph(loss)([jnp.ones((4, 4))] * 2, jnp.ones(4))
    assert value_names(graph.core, graph.names) == (
        "params[0]", "params[1]", "x", "z", "h", "z#2", "h#2", "q", "k", "%9", "%10",
    )  # fmt: skip


def test_each_round_of_a_python_loop_has_a_value_of_its_own():
    def f(x):
        for _ in range(3):
            x = jnp.sin(x)
        return x

    graph = fgrad.make_graph(f)(1.0)
    assert value_names(graph.core, ["x"]) == ("x", "x#2", "x#3", "x#4")
