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


def ruled(library):
    @library.custom_vjp
    def f(x):
        return jnp.sin(x)

    def forward(x):
        with jax.named_scope("attention_forward"):
            return jnp.sin(x), x

    def backward(x, ct):
        with jax.named_scope("attention_backward"):
            return (jnp.cos(x) * ct,)

    f.defvjp(forward, backward)

    @library.custom_jvp
    def g(x):
        return jnp.exp(x)

    @g.defjvp
    def rule(primals, tangents):
        with jax.named_scope("attention_jvp"):
            return g(*primals), tangents[0] * jnp.exp(primals[0])

    def loss(x):
        with jax.named_scope("net"):
            return f(x) + g(x)

    return loss


def test_custom_rules_keep_theirs():
    for _ in range(2):  # rules are kept
        found = scopes(fgrad.value_and_grad(ruled(fgrad)), 1.0)
        for name in "net/attention_forward", "derivative(net/attention_backward)", "derivative(net/attention_jvp)":
            assert any(name in line for line in found), (name, found)


def test_derivatives_are_not_in_the_scope_that_first_asked_for_them():
    def slope(x):
        with jax.named_scope("attention"):
            return fgrad.grad(lambda x: jnp.sinh(x) * jnp.arctan(x))(x)

    assert scopes(slope, 1.0)
    assert not scopes(fgrad.grad(lambda x: jnp.sinh(x) * jnp.arctan(x)), 1.0)
