"""Graphs without what need not be computed."""

import jax.numpy as jnp

import fgrad
from fgrad.graph import op
from fgrad.passes.simplify import Simplifier


def test_equal_operations_of_parts_recorded_apart_are_shared():
    """The table of operations forgets: afterwards an equal operation is another object."""
    sine = fgrad.make_graph(jnp.sin)(jnp.ones(3)).nodes[0].op
    op.clear_table()
    again = op.intern(sine.primitive, sine.params, sine.in_types)
    assert again is not sine
    writer = Simplifier(sine.in_types)
    assert writer.emit(sine, tuple(writer.inputs)) == writer.emit(again, tuple(writer.inputs))
