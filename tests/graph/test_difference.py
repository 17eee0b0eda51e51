"""What is different between two graphs: aligned by structure, printed with names and lines."""

import jax
import jax.numpy as jnp
import pytest

import fgrad

X, W = jnp.ones(3), jnp.ones((3, 3))


def layer(activation, scale=2.0):
    def net(x, w):
        z = x @ w
        h = activation(z)
        loss = jnp.sum(h * scale)
        return loss  # noqa: RET504  (it has a name)

    return fgrad.make_graph(net)(X, W)


def test_equal_graphs():
    found = layer(jnp.tanh).diff(layer(jnp.tanh))
    assert not found
    assert str(found) == "The graphs are equal."
    assert (found.added, found.removed, found.changed) == ((), (), ())


def test_a_changed_operation():
    found = layer(jnp.tanh).diff(layer(jnp.sin))
    assert found
    ((one, other),) = found.changed
    assert (one.node.op.name, other.node.op.name) == ("tanh", "sin")
    assert found.added == found.removed == ()
    lines = str(found).splitlines()
    assert lines[0] == "0 removed, 0 added, 1 changed"
    assert [line[:22] for line in lines if line[0] in "+-"] == ["- h: f32[3] = tanh z  ", "+ h: f32[3] = sin z   "]
    assert "test_difference.py:" in lines[3]


def ruled(slope=2.0, outer=1.0):
    @jax.custom_jvp
    def square(x):
        return x * x

    @square.defjvp
    def _(primals, tangents):
        return square(*primals), slope * primals[0] * tangents[0]

    @jax.custom_vjp
    def clipped(x):
        return jnp.clip(x, -1.0, 1.0)

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (g * outer,))

    def program(x):
        _, y = jax.lax.scan(lambda c, t: (c, square(t)), 0.0, clipped(x))
        return jnp.sum(y)

    return fgrad.make_graph(program)(X)


def test_other_functions_with_the_same_rules_are_no_difference():
    found = ruled().diff(ruled())
    assert ruled() != ruled() and not found
    assert sorted(found.other_functions) == ["clipped", "square"]
    assert "which do the same by the same rules: " in str(found)
    assert ruled().diff(ruled(slope=3.0)) and ruled().diff(ruled(outer=3.0))
    assert not ruled().diff(ruled()).moved and ruled().diff(ruled(slope=3.0)).moved


def test_a_program_that_is_written_out_is_the_same():
    graph = ruled()
    scope = {}
    exec(graph.to_python(), scope)
    assert not graph.diff(fgrad.make_graph(scope["program"])(X))


def test_what_was_put_in_and_taken_out():
    one, other = layer(jnp.tanh), layer(lambda z: jnp.tanh(jnp.exp(z)))
    assert [line.node.op.name for line in one.diff(other).added] == ["exp"]
    assert [line.node.op.name for line in other.diff(one).removed] == ["exp"]
    assert len(one.diff(other).changed) == 1  # tanh reads another value


def test_a_changed_constant_and_a_changed_input():
    assert len(layer(jnp.tanh).diff(layer(jnp.tanh, 3.0)).changed) == 1
    one, other = [fgrad.make_graph(lambda x: jnp.sum(jnp.sin(x)))(jnp.ones(n)) for n in (2, 3)]
    assert one.diff(other)


def test_another_order():
    def f(x):
        return jnp.sin(x) * jnp.cos(x)

    def g(x):
        c = jnp.cos(x)
        return jnp.sin(x) * c

    found = fgrad.make_graph(f)(1.0).diff(fgrad.make_graph(g)(1.0))
    assert found.moved
    assert found
    assert "another order" in str(found)


@pytest.mark.parametrize("change", [jnp.sin, lambda h: h + 1.0, lambda h: -h], ids=["sin", "plus", "minus"])
def test_replacing_shows_as_a_difference_of_that(change):
    graph = layer(jnp.tanh)
    found = graph.diff(graph.replace("h", change))
    assert found.removed == ()
    assert 1 <= len(found.added) <= 2
    assert "<pre>" in found._repr_html_()
