"""What is kept for backward: the rows agree with what ``vjp`` keeps and with what a compiled forward half returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import print_saved_residuals

import fgrad


def mlp(params, x):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    out = hidden @ params["v"]
    return jnp.sum(jax.nn.softmax(out) * jnp.sin(out))


def rnn(w, x):
    def step(carry, row):
        state = jnp.tanh(carry @ w + row)
        return state, state

    last, states = jax.lax.scan(step, x[0], x)
    return jnp.sum(last * states)


def attention(p, x):
    q, k, v = x @ p["q"], x @ p["k"], x @ p["v"]
    weights = jax.nn.softmax(q @ k.T / 2.0)
    return jnp.mean((weights @ v) ** 2)


def blocks(w, x, policy=None):
    block = fgrad.checkpoint(lambda w, x: jnp.sin(jnp.sin(x @ w) @ w), policy=policy)
    once = block(w, x)
    return jnp.sum(block(w, once))


def ode(theta, x):
    """Ten steps of Runge and Kutta, of second order."""
    for _ in range(10):
        half = x + 0.05 * jnp.sin(theta @ x)
        x = x + 0.1 * jnp.sin(theta @ half)
    return jnp.sum(x**2)


def square(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


PROGRAMS = {
    "mlp": (mlp, ({"w": square(3, 4), "b": square(4), "v": square(4, 2)}, square(5, 3))),
    "rnn": (rnn, (square(4, 4), square(6, 4))),
    "attention": (attention, ({"q": square(8, 4), "k": square(8, 4), "v": square(8, 4)}, square(7, 8))),
    "remat": (blocks, (square(4, 4), square(2, 4))),
    "remat, products kept": (
        lambda w, x: blocks(w, x, fgrad.checkpoint_policies.dots_saveable),
        (square(4, 4), square(2, 4)),
    ),
    "ode": (ode, (square(3, 3), square(3))),
    "jitted": (jax.jit(mlp), ({"w": square(3, 4), "b": square(4), "v": square(4, 2)}, square(5, 3))),
    "half precision": (
        lambda w, x: jnp.sum(jnp.exp(x @ w)).astype(jnp.float32),
        (square(4, 4).astype("bfloat16"), square(4, 4).astype("bfloat16")),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bytes_are_those_that_vjp_keeps(name):
    fun, args = PROGRAMS[name]
    found = fgrad.residuals(fun)(*args)
    held = jax.tree.leaves(fgrad.vjp(fun, *args)[1])
    assert sorted((row.shape, row.bytes) for row in found) == sorted((x.shape, x.nbytes) for x in held)
    assert found.bytes == sum(x.nbytes for x in held)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bytes_are_those_of_the_compiled_forward_half(name):
    fun, args = PROGRAMS[name]
    found = fgrad.residuals(fun)(*args)
    lowered = jax.jit(lambda *args: fgrad.vjp(fun, *args)).lower(*args)
    outputs = jax.tree.leaves(lowered.out_info)
    size = lowered.compile().memory_analysis().output_size_in_bytes
    # beside the buffers, a program returns a table with a pointer to each
    values = sum(x.size * x.dtype.itemsize for x in outputs[:1])
    assert found.bytes == size - 8 * len(outputs) - values


@pytest.mark.parametrize("name", PROGRAMS)
def test_types_will_do(name):
    fun, args = PROGRAMS[name]
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args)
    # nothing is lifted out of a program that is staged: its numbers stand in the graph
    found = [row for row in fgrad.residuals(fun)(*args) if row.kind != "constant" and row.shape]
    staged = [row for row in fgrad.residuals(fun)(*types) if row.shape]
    assert sorted((r.name, r.type, r.kind, r.made and r.made.line) for r in staged) == sorted(
        (r.name, r.type, r.kind, r.made and r.made.line) for r in found
    )


def test_a_row_says_who_made_the_value_and_who_reads_it():
    fun, args = PROGRAMS["mlp"]
    rows = {row.name: row for row in fgrad.residuals(fun)(*args)}
    hidden = rows["hidden"]
    assert (hidden.type, hidden.bytes, hidden.kind) == ("f32[5,4]", 80, "intermediate")
    assert hidden.made.text.startswith("hidden = jnp.tanh(") and hidden.made.function == "mlp"
    assert [(r.rule, r.source.text) for r in hidden.read] == [("dot_general", 'out = hidden @ params["v"]')]
    assert rows["slope of tanh"].read[0].rule == "tanh"
    assert rows["params['w']"].kind == rows["x"].kind == "argument" and rows["x"].made is None


def test_only_what_the_wanted_gradient_needs():
    fun, args = PROGRAMS["mlp"]
    names = {row.name for row in fgrad.residuals(fun, argnums=0)(*args)}
    assert "x" in names and "params['w']" not in names  # w is read for the gradient of x alone
    with_labels = fgrad.residuals(lambda w, labels: jnp.sum(w[labels]))(jnp.ones(3), jnp.array([0, 2]))
    assert [row.type for row in with_labels] == ["i32[2,1]"]


def test_inside_a_loop_the_lines_are_those_of_the_body():
    fun, args = PROGRAMS["rnn"]
    rows = {row.name: row for row in fgrad.residuals(fun)(*args)}
    state = rows["state"]  # its slope is computed again
    assert state.shape == (6, 4) and state.made.text == "state = jnp.tanh(carry @ w + row)"
    assert [reader.source.function.endswith("step") for reader in state.read] == [False, True]


def test_a_policy_is_seen():
    nothing, args = PROGRAMS["remat"]
    products, _ = PROGRAMS["remat, products kept"]
    assert {row.name for row in fgrad.residuals(nothing)(*args)} == {"w", "x", "once"}
    assert fgrad.residuals(products)(*args).bytes > fgrad.residuals(nothing)(*args).bytes
    assert all(reader.rule == "checkpoint" for row in fgrad.residuals(nothing)(*args) for reader in row.read)


def test_results_and_closed_over_values():
    weights = {"k": square(4, 4)}
    found = fgrad.residuals(lambda x: jnp.exp(x @ weights["k"]))(square(2, 4))
    assert [(row.name, row.kind) for row in found] == [("weights['k']", "argument"), ("exp", "output")]
    assert found.bytes_for_backward == 0


def test_python_control_flow_and_auxiliary_data():
    def fun(x, flag=False):
        return (jnp.sum(jnp.sin(x)) if x[0] > 0 and flag else jnp.sum(x)), {"n": 3}

    assert not fgrad.residuals(fun, has_aux=True)(jnp.ones(2))
    assert [r.name for r in fgrad.residuals(fun, has_aux=True)(jnp.ones(2), flag=True)] == ["slope of sin"]


def test_under_jit():
    sizes = []

    @jax.jit
    def step(x):
        sizes.append(fgrad.residuals(lambda x: jnp.sum(jnp.sin(x)))(x).bytes)
        return x

    step(jnp.ones(5))
    assert sizes == [20]


def test_it_prints_with_totals_and_is_false_where_nothing_is_kept():
    def first(x):
        return jnp.sin(x)

    def second(x):
        return jnp.exp(first(x))

    found = fgrad.residuals(second)(jnp.ones(4))
    text = str(found)
    assert text.splitlines()[0] == "Kept for backward: 2 values, 32 bytes; 16 of them for backward alone."
    assert "slope of sin  f32[4]     16  intermediate  test_residuals.py:" in text
    assert sorted(found.by_function.values()) == [16, 16] and found.by_module == {}
    assert "<table>" in found._repr_html_()
    nothing = fgrad.residuals(lambda x: 2.0 * x)(1.0)
    assert not nothing and str(nothing) == "Nothing is kept for backward."
    assert [(row.kind, row.bytes) for row in nothing] == [("constant", 4)]


def test_no_line_of_fgrads_or_jaxs():
    for fun, args in PROGRAMS.values():
        for row in fgrad.residuals(fun)(*args):
            for source in [row.made, *(reader.source for reader in row.read)]:
                assert source is None or source.file == __file__, (row, source)


def test_jax_shows_the_users_lines_too(capsys):
    @fgrad.custom_vjp
    def squashed(x):
        return jnp.sin(x)

    squashed.defvjp(lambda x: (squashed(x), jnp.cos(x)), lambda slope, ct: (slope * ct,))

    def loss(w, x):
        hidden = squashed(x @ w)
        inner = fgrad.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(w)
        mapped = fgrad.vmap(jnp.sin)(fgrad.jit(lambda h: jnp.exp(h) * h)(hidden))
        again = fgrad.checkpoint(lambda a: jnp.sin(jnp.sin(a)))(mapped)
        return jnp.sum(inner * inner) + fgrad.numpy.sum(fgrad.nn.softmax(again))

    print_saved_residuals(loss, square(3, 3), square(3, 3))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert all("from the argument" in line or f"from {__file__}:" in line for line in lines), lines
