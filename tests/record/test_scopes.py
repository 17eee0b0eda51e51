"""Names of jax.named_scope: kept in what XLA compiles, so that profiles show them."""

import io

import jax
import jax.numpy as jnp
import pytest

import fgrad


def layer(w, x):
    with jax.named_scope("attention"):
        return jnp.tanh(w @ x)


def loss(w, x):
    with jax.named_scope("net"):
        h = layer(w, x)
    return jnp.sum(h * h)


def scopes(function, *args):
    text = jax.jit(function).lower(*args).as_text(debug_info=True)
    return {line.split('"')[1] for line in text.splitlines() if "attention" in line and line.startswith("#loc")}


ARGS = jnp.ones((3, 3)), jnp.ones(3)


@pytest.mark.parametrize(
    "function",
    [loss, fgrad.grad(loss), fgrad.jit(loss), fgrad.jit(fgrad.grad(loss)), fgrad.grad(jax.jit(loss))],
    ids=["function", "grad", "jit", "jit of grad", "of JAX's jit"],
)
def test_compiled_programs_keep_the_names(function):
    assert any("net/attention" in name for name in scopes(function, *ARGS))


def test_derivatives_say_so():
    assert any("derivative(net/attention)" in name for name in scopes(fgrad.grad(loss), *ARGS))


def test_graphs_and_files_know_them():
    graph = fgrad.make_graph(loss)(*ARGS)
    assert [node.source.module for node in graph] == ["net/attention", "net/attention", "", ""]
    file = io.BytesIO()
    graph.save(file)
    assert [node.source.module for node in fgrad.load(io.BytesIO(file.getvalue()))] == [n.source.module for n in graph]


def test_what_runs_at_once_asks_for_none():
    seen = []

    def watched(w, x):
        out = loss(w, x)
        seen.append(out._trace.scoped)
        return out

    fgrad.grad(watched)(*ARGS)
    jax.jit(fgrad.grad(watched))(*ARGS)
    assert seen == [False, True]
