"""What users of autodiff ask for most, each with a program as they write them (``docs/understanding/needs.md``)."""

import copy
import io
import re
import warnings
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.torch import nn

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "understanding" / "needs.md"


class Block(nn.Module):
    """A block of a small transformer."""

    def __init__(self, width=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1)
        return x + self.out(weights @ v)


class Model(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(depth)])
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def rnn(params, xs):
    def cell(h, x):
        h = jnp.tanh(params["w"] @ h + params["u"] * x)
        return h, h

    _, hs = jax.lax.scan(cell, jnp.zeros(3), xs)
    return jnp.mean(hs**2)


RNN = ({"w": jnp.eye(3) * 0.5, "u": jnp.ones(3)}, jnp.linspace(-1.0, 1.0, 5))


def mlp(params, x):
    h = jnp.tanh(x @ params["w1"])
    y = h @ params["w2"]
    return jnp.mean(y**2)


MLP = ({"w1": jnp.full((3, 4), 0.1), "w2": jnp.ones((4, 2))}, jnp.ones((5, 3)))


def ode(rate, steps=20):
    y = jnp.float32(1.0)
    for _ in range(steps):
        slope = -rate * y
        y = y + 0.1 * slope
    return y


def test_an_inplace_error_explains_itself():
    model = Model()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2, 4)).mean()
    opt.step()
    loss.backward()  # no gradients yet: the step wrote nothing
    loss = model(torch.ones(2, 4)).mean()
    opt.step()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    text = str(caught.value)
    assert "head.weight" in text
    assert "opt.step()" in text
    assert "Way out" in text


def test_mutation_is_simply_right():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.inplace("snapshot"):
        h = x.exp()
        y = (h * h).sum()
        h.add_(1.0)
        y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-6)


def test_no_gradient_is_silently_wrong():
    def program(x):
        h = x.exp()
        h.data.zero_()
        h.sum().backward()

    (found,) = torch.audit(program, torch.ones(2, requires_grad=True))
    assert (found.kind, found.value) == ("silent", "result")


def test_where_a_nan_comes_from():
    def loss(x):
        r = jnp.sqrt(jnp.sum(x**2, -1))
        return jnp.sum(jnp.where(r > 0, r, 0.0))

    found = fgrad.nonfinite(loss)(jnp.array([[0.0, 0.0], [3.0, 4.0]]))
    assert (found.phase, found.operation) == ("backward", "sqrt")
    assert found.mend.checked


def test_an_error_in_backward_shows_the_forward_line():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def backward(ctx, grad):
            return grad[:1] / 2

    x = torch.ones(3, requires_grad=True)
    loss = Half.apply(x).sum()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "loss = Half.apply(x).sum()" in text
    assert "Half.backward" in text
    assert "loss.backward()" in text


def test_a_drawing_with_my_names():
    model = Model(12)
    drawing = torch.draw(model(torch.ones(2, 3, 4)).mean())
    assert "blocks.0.qkv.weight" in str(drawing)
    assert "the same, 11 more" in str(drawing)
    assert "<svg" in drawing.to_html()
    assert "d rnn / d params['w']" in fgrad.draw(rnn)(*RNN).to_mermaid()


def test_the_gradient_is_a_program():
    graph = fgrad.make_graph(mlp)(*MLP).grad()
    scope = {}
    exec(graph.to_python(), scope)
    assert fgrad.make_graph(scope["program"])(*MLP) == graph
    assert graph.diff(fgrad.make_graph(rnn)(*RNN).grad())
    assert not graph.diff(graph)
    twice = fgrad.make_graph(mlp)(*MLP).replace("h", lambda h: 2 * h)
    np.testing.assert_allclose(twice(*MLP), 4 * mlp(*MLP), rtol=1e-6)


def test_what_is_kept_for_backward():
    kept = fgrad.residuals(rnn)(*RNN)
    held = fgrad.vjp(rnn, *RNN)[1]
    assert kept.bytes == sum(leaf.nbytes for leaf in jax.tree.leaves(held))
    model = Model()
    found = torch.residuals(model(torch.ones(2, 4)).mean())
    assert {"blocks.0.qkv", "head"} <= set(found.by_module)


def test_a_second_backward():
    value, pull = fgrad.vjp(mlp, *MLP)
    jax.tree.map(np.testing.assert_array_equal, pull(jnp.ones_like(value)), pull(jnp.ones_like(value)))
    w = torch.ones(2, requires_grad=True)
    shared = w.exp()
    shared.sum().backward()
    with pytest.raises(RuntimeError) as caught:
        (shared * 2).sum().backward()
    assert "shared = w.exp()" in str(caught.value)
    assert "shared.sum().backward()" in str(caught.value)


def test_why_a_gradient_is_missing():
    model = Model()
    with torch.no_grad():
        h = model.blocks[0](torch.ones(2, 4))
    loss = model.head(h).mean()
    table = torch.why_no_grad(loss, model)
    assert table["blocks.0.qkv.weight"].kind == "no_grad"
    assert table["blocks.1.qkv.weight"].kind == "unused"
    assert not table["head.weight"]
    assert fgrad.why_zero(lambda w: jnp.sum(jax.lax.stop_gradient(w)))(jnp.ones(2))["w"].kind == "cut"


def test_inplace_inside_vmap():
    def outer(x):
        out = torch.zeros(3, 3)
        for i in range(3):
            out[i] = x[i] * x
        return out

    x = torch.arange(6.0).reshape(2, 3)
    found = torch.vmap(outer)(x)
    np.testing.assert_allclose(found.numpy(), np.einsum("bi,bj->bij", x.numpy(), x.numpy()))


def test_a_port_is_compared_value_by_value():
    def theirs(x, w):
        h = torch.tanh(x @ w)
        return (h * h).mean()

    def ours(x, w):
        h = jnp.tanh(x @ w)
        return jnp.mean(h * jnp.abs(h))

    x, w = jnp.linspace(-1, 1, 6).reshape(2, 3), jnp.ones((3, 2))
    found = fgrad.compare(theirs, ours)(x, w)
    assert found.first.two.source.text == "return jnp.mean(h * jnp.abs(h))"


def test_views_in_words():
    table = torch.arange(6.0).view(2, 3)
    row = table.t()[0]
    table.mul_(10)
    text = str(torch.views(row))
    assert "row = table.t()[0]" in text
    assert "table.mul_(10)" in text


def test_rules_of_every_kind():
    def cube(x):
        return x**3

    rules = {"vjp": lambda ct, out, x: (3 * x**2 * ct,), "jvp": lambda t, out, x: 3 * x**2 * t[0]}
    ruled = fgrad.define_rule(cube, **rules)
    fgrad.check_rule(ruled, 2.0)
    assert fgrad.grad(ruled)(2.0) == fgrad.jvp(ruled, (2.0,), (1.0,))[1] == 12.0
    wrong = fgrad.define_rule(cube, vjp=lambda ct, out, x: (2 * x**2 * ct,))
    with pytest.raises(fgrad.errors.RuleCheckError):
        fgrad.check_rule(wrong, 2.0)


def test_a_custom_backward_that_is_wrong_at_second_order():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.e = x.exp()
            return ctx.e.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.e

    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    assert any("ctx.e" in str(warning.message) for warning in caught)


def test_values_inside_and_the_order_of_hooks():
    seen = fgrad.watch(rnn, "h")(*RNN)
    assert len(seen["h"]) == 5
    model = Model()
    records = torch.watch(model, "blocks.*.out")(torch.ones(2, 4))
    assert list(records) == ["blocks.0.out", "blocks.1.out", "blocks.2.out"]
    h = model(torch.ones(2, 4))
    h.register_hook(lambda grad: grad * 2)
    (entry,) = torch.hook_schedule(h.sum()).hooks
    assert "test_needs.py" in entry.registered


def test_one_program_though_nobody_jitted():
    fgrad.clear_cache()
    gradient = fgrad.grad(mlp)
    for _ in range(3):
        gradient(*MLP)
    assert fgrad.cache_info().programs == 1


def test_what_it_costs_to_compile():
    cost = fgrad.compile_cost(ode)(0.5)
    assert cost.unrolled[0].count == 20
    assert cost.outlined < cost.operations / 5


def test_a_loop_of_unknown_length():
    def decay(rate):
        return fgrad.bounded_while(lambda y: y > 0.1, lambda y: y * (1 - rate), 1.0, max_steps=50)

    found = fgrad.jit(fgrad.grad(decay))(0.3)
    steps = int(np.ceil(np.log(0.1) / np.log(0.7)))
    np.testing.assert_allclose(found, -steps * 0.7 ** (steps - 1), rtol=1e-5)


def test_a_number_under_jit():
    def loss(params, x):
        if jnp.sum(x) > 0:
            return mlp(params, x)
        return 0.0

    with pytest.raises(fgrad.errors.NotConcreteError) as caught:
        fgrad.jit(loss)(*MLP)
    assert "test_needs.py" in str(caught.value)
    assert "jnp.where" in str(caught.value) or "jax.lax.cond" in str(caught.value)
    assert fgrad.grad(loss)(*MLP)["w2"].shape == (4, 2)


def test_graphs_are_saved_and_loaded():
    graph = fgrad.make_graph(mlp)(*MLP)
    file = io.BytesIO()
    graph.save(file)
    loaded = fgrad.load(file)
    assert loaded == graph == copy.deepcopy(graph)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), loaded.grad()(*MLP), graph.grad()(*MLP))


def test_jacobians_in_chunks():
    def f(x):
        return jnp.sin(x) * jnp.sum(x)

    x = jnp.linspace(0.0, 1.0, 7)
    np.testing.assert_allclose(fgrad.jacrev(f, chunk_size=2)(x), jax.jacrev(f)(x), rtol=1e-5)


def test_conventions_are_said():
    with pytest.raises(fgrad.errors.ArgumentTypeError, match=r"params\['steps'\]"):
        fgrad.grad(lambda params: params["w"] * params["steps"])({"w": 1.0, "steps": 3})
    z = torch.tensor([1.0 + 2.0j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.detach().numpy())  # as PyTorch, the conjugate of JAX's
    assert fgrad.grad(lambda z: jnp.real(z * jnp.conj(z)))(1.0 + 2.0j) == 2.0 - 4.0j


def test_the_page_names_every_test():
    text = PAGE.read_text(encoding="utf-8")
    mine = [name for name in globals() if name.startswith("test_") and not name.startswith("test_the_page_")]
    assert [name for name in mine if f"`{name}`" not in text] == []


def test_the_page_names_tests_that_there_are():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if ".py::" in line and line.startswith(": ")]
    assert len(rows) == 16
    named = [each for row in rows for each in re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", row)]
    for file, test in named:
        text = (TESTS / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, (file, test)
