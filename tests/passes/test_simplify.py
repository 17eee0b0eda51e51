"""Graphs without what need not be computed."""

import jax.numpy as jnp
from jax import lax

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


def test_a_block_as_large_as_the_array_is_the_array():
    def whole(x, y, i):
        return lax.dynamic_update_slice(x, lax.dynamic_slice(lax.slice(y, (0,), (3,)), (i,), (3,)), (i,))

    def part(x, y, i):
        return lax.dynamic_update_slice(x, lax.dynamic_slice(lax.slice(y, (1,), (3,)), (i,), (1,)), (i,))

    operands = jnp.arange(3.0), jnp.ones(3), 2
    assert not fgrad.make_graph(whole)(*operands).simplify().nodes
    assert len(fgrad.make_graph(part)(*operands).simplify().nodes) >= 3
    assert whole(*operands).tolist() == [1.0, 1.0, 1.0]
