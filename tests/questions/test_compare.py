"""``compare`` on programs that should be one: it finds where they part, and nothing where they do not."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fgrad
import fgrad.torch as torch
from fgrad.torch import nn

T, D, HEADS = 6, 8, 2


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape), "float32") for shape in shapes]


def line(function, text):
    lines, first = inspect.getsourcelines(function)
    (at,) = [k for k, each in enumerate(lines) if text in each]
    return f"test_compare.py:{first + at}"


# -- layer norm ------------------------------------------------------------------------------------------------------


def layer_norm(x, g, b):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    scale = jnp.sqrt(variance + 1e-5)
    return jnp.sum(jnp.tanh((x - mean) / scale * g + b))


def with_sums(x, g, b):
    mean = jnp.sum(x, -1, keepdims=True) / x.shape[-1]
    moved = x - mean
    return jnp.sum(jnp.tanh(moved * lax.rsqrt(jnp.mean(moved * moved, -1, keepdims=True) + 1e-5) * g + b))


def epsilon_outside(x, g, b):
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    scale = jnp.sqrt(variance) + 1e-5
    return jnp.sum(jnp.tanh((x - mean) / scale * g + b))


def in_half(x, g, b):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    scale = jnp.sqrt(variance + 1e-5).astype(jnp.float16).astype(jnp.float32)
    return jnp.sum(jnp.tanh((x - mean) / scale * g + b))


def stopped(x, g, b):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    scale = lax.stop_gradient(jnp.sqrt(variance + 1e-5))
    return jnp.sum(jnp.tanh((x - mean) / scale * g + b))


NORM = arrays((4, D), (D,), (D,))


def test_another_way_to_sum_is_no_difference():
    found = fgrad.compare(layer_norm, with_sums)(*NORM)
    assert not found and found.first is None
    assert "They agree" in str(found)
    assert [x.name for x in found.gradients] == ["d x", "d g", "d b"]


def test_epsilon_outside_of_the_root():
    first = fgrad.compare(layer_norm, epsilon_outside)(*NORM).first
    assert (first.one.name, first.two.name) == ("scale", "scale")
    assert first.one.line == line(layer_norm, "scale = ")
    assert first.two.line == line(epsilon_outside, "scale = ")
    assert "jnp.sqrt(variance) + 1e-5" in first.two.text


def test_a_cast_to_half():
    found = fgrad.compare(layer_norm, in_half)(*NORM)
    assert found and not all(x.equal for x in found.gradients)
    assert found.starts[1].line == line(in_half, "float16")
    assert len(found.differences) > 3 and found.differences[-1].one.backward


def test_only_the_gradient_differs():
    found = fgrad.compare(layer_norm, stopped)(*NORM)
    assert all(x.equal for x in found.results)
    assert [x.name for x in found.gradients if not x.equal] == ["d x"]
    # it is the derivative of the division that only one of them goes through
    assert found.first.one.backward and found.starts[0].operation == "div"
    assert found.starts[0].line == line(layer_norm, "return")


def test_both_in_half_precision_round_as_such():
    given = [x.astype("float16") for x in NORM]
    assert not fgrad.compare(layer_norm, with_sums)(*given)


def test_sixty_four_bits():
    with jax.enable_x64(True):
        given = [x.astype("float64") for x in NORM]
        assert not fgrad.compare(layer_norm, with_sums)(*given)
        assert fgrad.compare(layer_norm, epsilon_outside)(*given).first.two.name == "scale"


# -- attention, in JAX and in torch ----------------------------------------------------------------------------------


def attention(x, wq, wk, wv):
    heads = [(x @ w).reshape(T, HEADS, D // HEADS).transpose(1, 0, 2) for w in (wq, wk, wv)]
    q, k, v = heads
    scores = q @ k.transpose(0, 2, 1) / jnp.sqrt(D // HEADS)
    masked = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf)
    out = (jax.nn.softmax(masked, -1) @ v).transpose(1, 0, 2).reshape(T, D)
    return jnp.sum(out**2)


def torch_attention(x, wq, wk, wv):
    q, k, v = [(x @ w).view(T, HEADS, D // HEADS).transpose(0, 1) for w in (wq, wk, wv)]
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return (out.transpose(0, 1).reshape(T, D) ** 2).sum()


def unmasked(x, wq, wk, wv):
    q, k, v = [(x @ w).view(T, HEADS, D // HEADS).transpose(0, 1) for w in (wq, wk, wv)]
    scores = q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5
    out = (scores.softmax(-1) @ v).transpose(0, 1).reshape(T, D)
    return (out**2).sum()


ATTENTION = arrays((T, D), (D, D), (D, D), (D, D))


def test_two_implementations_of_attention():
    found = fgrad.compare(attention, torch_attention)(*ATTENTION)
    assert not found and len(found.gradients) == 4
    assert not fgrad.compare(torch_attention, attention)(*map(torch.tensor, ATTENTION))


def test_a_mask_that_was_forgotten():
    found = fgrad.compare(attention, unmasked)(*ATTENTION)
    assert found
    lines = {place.line for place in (found.first.one, found.first.two, *found.starts) if place}
    assert lines & {line(attention, "masked ="), line(attention, "out =")} and line(unmasked, "out = (scores") in lines


# -- torch programs --------------------------------------------------------------------------------------------------


def rnn(x, w):
    h = torch.zeros(4)
    for t in range(5):
        h = torch.tanh(x[t] + h @ w)
    return (h * h).sum()


def detached(x, w):
    h = torch.zeros(4)
    for t in range(5):
        h = torch.tanh(x[t] + h.detach() @ w)
    return (h * h).sum()


def scanned(x, w):
    h, _ = lax.scan(lambda h, each: (jnp.tanh(each + h @ w), None), jnp.zeros(4), x)
    return jnp.sum(h * h)


def test_an_rnn_that_detaches_its_state():
    given = arrays((5, 4), (4, 4))
    assert not fgrad.compare(rnn, scanned)(*given)
    found = fgrad.compare(rnn, detached)(*given)
    assert all(x.equal for x in found.results) and not any(x.equal for x in found.gradients)
    assert line(rnn, "torch.tanh") in {place.line for place in (found.first.one, *found.starts) if place}


def test_lines_are_those_of_each_program():
    """Operations that ran before elsewhere show the line that ran them now."""

    def other(x, w):
        h = torch.tanh(x @ w)
        return (h * 2.0).sum()

    def same(x, w):
        h = torch.tanh(x @ w)
        return (h * 2.5).sum()

    found = fgrad.compare(other, same)(*arrays((3, 2), (2, 2)))
    for place, program in ((found.differences[0].one, other), (found.differences[0].two, same)):
        assert place.line == line(program, "return")
    for difference in found.differences:
        assert difference.one.line in (line(other, "return"), line(other, "h = "))
        assert difference.two.line in (line(same, "return"), line(same, "h = "))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def test_gradients_that_torch_recorded():
    real = pytest.importorskip("torch")
    net, (x,) = network(), arrays((5, 3))
    twin = real.nn.Sequential(real.nn.Linear(3, 4), real.nn.ReLU(), real.nn.Linear(4, 1))
    twin.load_state_dict({k: real.tensor(v.detach().numpy()) for k, v in net.state_dict().items()})
    (twin(real.tensor(x)) ** 2).mean().backward()
    recorded = {name: p.grad for name, p in twin.named_parameters()}

    def loss(x):
        return (net(x) ** 2).mean()

    assert not fgrad.compare(loss, recorded)(x)
    recorded["0.bias"] = recorded["0.bias"] * 1.01
    found = fgrad.compare(loss, recorded)(torch.tensor(x))
    assert [x.name for x in found.gradients if not x.equal] == ["d net.0.bias"]
    assert found.first.one.line == line(loss, "return")

    def in_jax(params, x):
        h = jax.nn.relu(x @ params["0"]["weight"].T + params["0"]["bias"])
        return jnp.mean((h @ params["2"]["weight"].T + params["2"]["bias"]) ** 2)

    params = {k: {n: jnp.asarray(p.detach().numpy()) for n, p in net[int(k)].named_parameters()} for k in "02"}
    found = fgrad.compare(in_jax, recorded)(params, x)
    assert [x.name for x in found.gradients if not x.equal] == ["d params['0']['bias']"]
    with pytest.raises(ValueError, match=r"no argument is called 'bais'.*params\['0'\]"):
        fgrad.compare(in_jax, {"bais": x})(params, x)


def test_modules_are_compared_with_their_parameters():
    one, two, (x,) = network(), network(), arrays((5, 3))
    assert not fgrad.compare(lambda x: one(x).sum(), lambda x: two(x).sum())(x)
    with torch.no_grad():
        two[2].weight.mul_(1.5)
    assert fgrad.compare(one, two)(x)


class Block(nn.Module):
    def __init__(self, normed_after):
        super().__init__()
        self.first, self.second = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attention = nn.MultiheadAttention(D, HEADS, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))
        self.normed_after = normed_after

    def forward(self, x):
        h = self.first(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        if self.normed_after:
            return self.second(x + self.feed(x))
        return x + self.feed(self.second(x))


def test_a_transformer_whose_last_block_is_normed_elsewhere():
    def made(last):
        torch.manual_seed(0)
        return nn.Sequential(Block(False), Block(last))

    before, after = made(False), made(True)
    found = fgrad.compare(lambda x: (before(x) ** 2).mean(), lambda x: (after(x) ** 2).mean())(*arrays((2, T, D)))
    assert found.first.one.line == line(Block, "return x + self.feed")
    assert found.first.two.line == line(Block, "return self.second(")
    # parameters go together by their paths, though the modules are called differently
    assert {"d x", "d before.0.attention.in_proj_weight", "d before.1.feed.2.bias"} <= {x.name for x in found.gradients}


# -- others ----------------------------------------------------------------------------------------------------------


def test_graphs_and_wrong_rules():
    f = fgrad.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x) * 1.01,))
    graph = fgrad.make_graph(lambda x: jnp.sum(f(x)))(jnp.ones(3))
    found = fgrad.compare(graph, lambda x: jnp.sum(jnp.sin(x)))(jnp.ones(3))
    assert all(x.equal for x in found.results)
    assert found.first.one.name == "d x" and found.first.relative == pytest.approx(0.01, rel=1e-3)
    assert not fgrad.compare(graph, graph)(jnp.ones(3))


def test_an_ode_with_another_step():
    def euler(y, rate):
        for _ in range(10):
            y = y + 0.1 * rate * y
        return jnp.sum(y)

    def midpoint(y, rate):
        for _ in range(10):
            half = y + 0.05 * rate * y
            y = y + 0.1 * rate * half
        return jnp.sum(y)

    def looped(y, rate):
        return jnp.sum(lax.fori_loop(0, 10, lambda _, y: y + 0.1 * rate * y, y))

    given = (jnp.ones(3), 0.5)
    assert not fgrad.compare(euler, looped)(*given)
    found = fgrad.compare(euler, midpoint)(*given)
    assert found.starts[1].line == line(midpoint, "half = ")
    shares = [d.relative for d in found.differences if d.one.name.startswith("y")]
    assert shares == sorted(shares) and len(shares) > 3  # it grows


def test_a_nan_on_one_side():
    found = fgrad.compare(lambda x: jnp.sum(jnp.sqrt(x)), lambda x: jnp.sum(jnp.sqrt(jnp.abs(x))))(jnp.array([1.0, -1]))
    assert found and found.first.index == (1,)


def test_results_must_have_equal_shapes():
    with pytest.raises(ValueError, match=r"the result is of shape \(3,\) in the first program and of shape \(\)"):
        fgrad.compare(lambda x: x, jnp.sum)(jnp.ones(3))
    with pytest.raises(ValueError, match="returns 1 arrays and the second 2"):
        fgrad.compare(lambda x: x, lambda x: (x, x))(jnp.ones(3))


def test_an_error_of_a_program_is_its_own():
    with pytest.raises(TypeError, match="dot_general"):
        fgrad.compare(lambda x: x @ x.T @ jnp.ones(7), jnp.sum)(jnp.ones((3, 2)))


def test_how_it_is_shown():
    found = fgrad.compare(layer_norm, epsilon_outside)(*NORM)
    text = str(found)
    assert "scale = jnp.sqrt(variance) + 1e-5" in text and "How it grows" in text
    assert "<table>" in found._repr_html_()


# -- captures of one program -----------------------------------------------------------------------------------------


def test_two_captures_of_a_step():
    """One weighs its loss in another way; the state that a step reads is an argument of its graph, by name."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y, weight):
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean() * weight
        loss.backward()
        opt.step()
        return loss

    def other(x, y, weight):
        opt.zero_grad()
        error = (model(x) - y) * weight
        loss = (error * error).mean()
        loss.backward()
        opt.step()
        return loss

    x, y, weight = torch.randn(4, 3), torch.randn(4, 1), torch.tensor(0.5)
    one, two = [torch.capture(f)(x, y, weight) for f in (step, other)]
    given = {"model.weight": model.weight.detach(), "model.bias": model.bias.detach()}
    given |= {"args[0]": x, "args[1]": y, "args[2]": weight, "opt.param_groups[0]['lr']": torch.tensor(0.1)}
    state = [given[name] for name in one.names]
    assert not fgrad.compare(one, torch.capture(step)(x, y, weight))(*state)
    found = fgrad.compare(one, two)(*state)
    names = [each.name for each in found.results]
    assert names == [name.removesuffix(" (written)") + " (written)" if k else name for k, name in enumerate(names)]
    assert any("model.weight" in name for name in names)
    assert found.first.two.source.text == "loss = (error * error).mean()"
    with pytest.raises(fgrad.errors.GraphArgumentError, match=r"It takes: model\.weight, model\.bias, args\[0\]"):
        fgrad.compare(one, two)(x, y, weight)
