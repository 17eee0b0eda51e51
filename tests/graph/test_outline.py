"""What repeats, with lines and loops, and what a program will cost to compile."""

import inspect

import jax
import jax.numpy as jnp

import fgrad

W, X = jnp.ones((3, 3)), jnp.ones(3)


def inline(x, ws):
    for w in ws:
        z = x @ w
        x = jnp.tanh(z) + x
    return jnp.sum(x)


def block(x, w):
    z = x @ w
    return jnp.tanh(z) + x


def called(x, ws):
    for w in ws:
        x = block(x, w)
    return jnp.sum(x)


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_loop_in_the_function_itself():
    found = fgrad.make_graph(inline)(X, [W] * 12).outline()
    (one,) = found.blocks
    assert (one.count, one.length, one.exact) == (12, 3, True)
    assert one.operations == ("dot_general", "tanh", "add")
    assert one.loop == f"test_outline.py:{line_of(inline, 'for w')}"
    start = line_of(inline, "z = x")
    assert one.where == f"test_outline.py:{start}-{start + 1} (inline)"
    assert (found.size, found.outlined) == (37, 4)
    assert "x12" in str(found)
    assert "37 operations, 4 where" in str(found)


def test_a_loop_around_a_function():
    (one,) = fgrad.make_graph(called)(X, [W] * 5).outline().blocks
    assert "(block)" in one.where
    assert one.loop is None


def test_a_while_loop():
    def f(x):
        i = 0
        while i < 6:
            x = jnp.sin(x)
            i += 1
        return x

    (one,) = fgrad.make_graph(f)(X).outline().blocks
    assert one.count == 6
    assert one.loop is not None


def test_nothing_repeats():
    found = fgrad.make_graph(lambda x: jnp.sum(jnp.sin(x)))(X).outline()
    assert not found
    assert "Nothing repeats" in str(found)


def test_cost_of_a_gradient():
    cost = fgrad.compile_cost(fgrad.grad(inline))(X, [W] * 12)
    assert cost
    assert cost.operations == sum(count for _, count in cost.primitives)
    assert all(block.count >= 11 for block in cost.unrolled)
    assert any(block.where.endswith("derivative") for block in cost.unrolled)
    assert cost.outlined < cost.operations / 5
    assert "jax.lax.scan" in str(cost)
    assert "<table>" in cost._repr_html_()


def test_cost_of_what_stands_in_a_loop():
    def f(x):
        def body(c, t):
            for _ in range(5):
                c = jnp.sin(c) * t
            return c, c

        return jax.lax.scan(body, jnp.float32(0), x)

    cost = fgrad.make_graph(f)(X).compile_cost()
    ((holder, found),) = cost.within
    assert holder.startswith("body of scan (test_outline.py:")
    assert found.blocks[0].count == 5
    assert cost.operations > 10


def test_cost_of_little():
    cost = fgrad.compile_cost(jnp.sin)(X)
    assert not cost
    assert cost.operations == 1
    assert "nothing repeats" in str(cost)
