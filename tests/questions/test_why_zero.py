"""``why_zero`` on programs that were meant to learn and do not: each names the argument, the reason and the line."""

import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad


def line(function, text):
    """Where a line of a function stands, as answers show it."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [k for k, each in enumerate(lines) if text in each]
    return f"test_why_zero.py:{first + at}"


def mlp(params, x, y):
    h = x
    for w, b in params[:-1]:
        h = jax.nn.relu(h @ w + b)
    w, b = params[-1]
    return jnp.mean((h @ w + b - y) ** 2)


def layers(bias=0.0):
    rng = np.random.default_rng(0)
    sizes = [3, 8, 8, 1]
    return [
        (jnp.asarray(rng.normal(size=(m, n)), "float32"), jnp.full(n, bias, "float32"))
        for m, n in itertools.pairwise(sizes)
    ]


def test_a_healthy_network_has_nothing_to_report():
    params = [(w, b) for w, b in layers()]
    zero = fgrad.why_zero(lambda p, x: jnp.sum(jnp.tanh(x @ p[0][0])))(params[:1], jnp.ones((4, 3)))
    assert [leaf.name for leaf in zero] == ["p[0][1]"]  # the bias that is not used
    assert not fgrad.why_zero(lambda x: jnp.sum(x**2))(jnp.ones(3))
    assert "No gradient is zero" in str(fgrad.why_zero(lambda x: jnp.sum(x**2))(jnp.ones(3)))


def test_an_mlp_whose_units_are_dead():
    zero = fgrad.why_zero(mlp)(layers(bias=-100.0), jnp.ones((4, 3)), jnp.ones((4, 1)))
    assert zero["params[0][0]"].kind == "masked" and not zero["params[0][0]"].partial
    assert line(mlp, "relu") in str(zero["params[0][0]"].reasons[0])
    assert "params[2][1]" not in [leaf.name for leaf in zero]
    # the last weights are multiplied by the dead units
    assert zero["params[2][0]"].kind == "masked"
    assert "multiplied by h" in zero["params[2][0]"].reasons[0].text


def test_what_is_counted_agrees_with_the_gradient():
    params, x, y = layers(), jnp.ones((4, 3)), jnp.ones((4, 1))
    gradient = jax.tree_util.tree_leaves(jax.grad(mlp)(params, x, y))
    zero = fgrad.why_zero(mlp)(params, x, y)
    counts = {leaf.name: leaf.zeros for leaf in zero}
    names = [f"params[{i}][{k}]" for i in range(3) for k in range(2)]
    assert any(0 < leaf.zeros < leaf.size for leaf in zero)
    assert [counts.get(name, 0) for name in names] == [int((g == 0).sum()) for g in gradient]


def rounded(w, x):
    h = jnp.round(x @ w)
    return jnp.sum(h**2)


def cast(w, x):
    h = (x @ w).astype(jnp.int32)
    return jnp.sum(h * 1.0)


def compared(w, x):
    h = (x @ w) > 0
    return jnp.mean(h * 1.0)


def chosen(w, x):
    h = jnp.argmax(x @ w)
    return h * 2.0


def stopped(w, x):
    h = lax.stop_gradient(x @ w)
    return jnp.sum(h)


@pytest.mark.parametrize(
    ("program", "words"),
    [(rounded, "round"), (cast, "cast to int32"), (compared, "gt"), (chosen, "argmax"), (stopped, "stop_gradient")],
)
def test_where_a_gradient_is_cut(program, words):
    (w, *_) = zero = fgrad.why_zero(program)(jnp.ones((3, 2)), jnp.ones(3))
    assert len(zero) == 2 and w.kind == "cut"
    assert words in w.reasons[0].text
    assert line(program, "h = ") in str(w.reasons[0])


def masked_where(x):
    return jnp.sum(jnp.where(x > 2, x, 0.0))


def masked_by_factor(x):
    keep = (x > 2).astype(x.dtype)
    return jnp.sum(x * keep)


def clipped(x):
    return jnp.sum(jnp.clip(x, 2.0, 3.0))


def one_row(x):
    return x[3]


def largest(x):
    return jnp.max(x)


@pytest.mark.parametrize("program", [masked_where, masked_by_factor, clipped, one_row, largest])
def test_what_is_masked_in_part(program):
    x = jnp.array([0.0, 1.0, 2.5, 5.0])
    zeros = int((jax.grad(program)(x) == 0).sum())
    (leaf,) = fgrad.why_zero(program)(x)
    assert (leaf.kind, leaf.zeros, leaf.size, leaf.partial) == ("masked", zeros, 4, True)
    assert line(program, "x, 2.0" if program is clipped else "return") in str(leaf.reasons[0])


def test_rows_of_an_embedding_that_are_not_read():
    def loss(table, tokens):
        return jnp.sum(jnp.tanh(table[tokens]))

    table, tokens = fgrad.why_zero(loss)(jnp.ones((10, 4)), jnp.array([1, 2, 2]))
    assert (table.kind, table.zeros, table.size) == ("masked", 32, 40)
    assert "gather" in table.reasons[0].text
    assert tokens.kind == "integer"


@pytest.mark.parametrize("flat", [jnp.tanh, jax.nn.sigmoid, jax.nn.silu, jnp.exp, lambda x: jax.nn.softmax(x)[0]])
def test_what_is_saturated(flat):
    (leaf,) = fgrad.why_zero(lambda x: jnp.sum(flat(x)))(jnp.array([-400.0, -300.0]))
    assert leaf.kind == "saturated"
    assert "test_why_zero.py" in str(leaf.reasons[0])


def test_contributions_that_cancel():
    (leaf,) = fgrad.why_zero(lambda x: jnp.sum(jax.nn.softmax(x)))(jnp.array([1.0, 2.0]))
    assert leaf.kind == "cancels"
    assert fgrad.why_zero(lambda x: x - x)(1.0)["x"].kind == "cancels"


def test_a_custom_rule_that_gives_nothing_back():
    f = fgrad.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct * 0.0,))
    (leaf,) = fgrad.why_zero(lambda x: f(x))(3.0)
    assert leaf.kind == "cut" and "backward rule" in leaf.reasons[0].text


def test_an_rnn_that_forgets():
    def step(h, x, w):
        return jax.nn.relu(h @ w + x), None

    def loss(w, xs):
        h, _ = lax.scan(lambda h, x: step(h, x, w), jnp.ones(4), xs)
        return jnp.sum(h)

    (w, *_) = fgrad.why_zero(loss)(-jnp.eye(4), -jnp.ones((5, 4)))
    assert w.name == "w" and w.kind == "masked"
    assert {line(step, "return")} <= {str(reason).split(", at ")[-1] for reason in w.reasons}


def test_the_branch_that_was_taken_and_loops():
    def loss(a, b, n):
        chosen = lax.cond(n > 0, lambda: a * 2.0, lambda: b * 0.0)
        return lax.fori_loop(0, 3, lambda _, c: c * 0.5, chosen)

    assert [leaf.name for leaf in fgrad.why_zero(loss)(1.0, 2.0, 1.0)] == ["b", "n"]
    assert [leaf.name for leaf in fgrad.why_zero(loss)(1.0, 2.0, -1.0)] == ["a", "b", "n"]


def test_python_branches_are_those_of_the_values():
    def loss(x):
        return x * 0.0 if x > 0 else x

    assert fgrad.why_zero(loss)(1.0) and not fgrad.why_zero(loss)(-1.0)


def test_the_answer_is_a_table_for_people_and_fields_for_programs():
    zero = fgrad.why_zero(lambda p: jnp.sum(p["a"]))({"a": jnp.ones(2), "b": jnp.ones(2)})
    assert [(leaf.name, leaf.kind, leaf.zeros, leaf.size) for leaf in zero] == [("p['b']", "unused", 2, 2)]
    assert str(zero) == repr(zero) and "p['b']" in str(zero)
    assert "<table>" in zero._repr_html_()
    with pytest.raises(TypeError, match="why_zero takes a function"):
        fgrad.why_zero(3)
