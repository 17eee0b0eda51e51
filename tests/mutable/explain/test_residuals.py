"""What a graph keeps for backward: the bytes are those that the process holds, memory that is shared counts once."""

import gc
import tracemalloc

import jax
import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.run.background import wait_for_compilations
from fgrad.torch.utils.checkpoint import checkpoint


def held():
    """The bytes of all arrays of the process, NumPy's and JAX's."""
    wait_for_compilations()  # which hold some meanwhile
    gc.collect()
    only = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    taken = tracemalloc.take_snapshot().filter_traces([only])
    seen = {id(x): x.nbytes for x in jax.live_arrays()}
    return sum(trace.size for trace in taken.traces) + sum(seen.values())


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.first, self.second = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.first(self.norm(x)))
        return x + torch.nn.functional.dropout(self.second(hidden), 0.1)


class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.all, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.all(x).chunk(3, -1)
        weights = torch.softmax(query @ key.transpose(-1, -2) / 4, -1)
        return x + self.out(weights @ value)


def mlp():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Tanh())
    x = torch.randn(32, 64)
    return (net, x), lambda: net(x).pow(2).sum()


def transformer():
    net = torch.nn.Sequential(Attention(48), Block(48), Attention(48), Block(48))
    x = torch.randn(4, 16, 48)
    return (net, x), lambda: net(x).square().mean()


def rnn():
    cell = torch.nn.RNNCell(32, 64)
    xs = torch.randn(10, 16, 32)

    def loss():
        state = torch.zeros(16, 64)
        for x in xs:
            state = cell(x, state)
        return state.sum()

    return (cell, xs), loss


def writes():
    x = torch.randn(64, 64, requires_grad=True)

    def loss():
        y = x.exp()
        z = y * 2
        z[1:3].mul_(3)
        part = z[:, 5:9]
        return (part.sin() * z.t()[:4].t()).sum() + z.detach().mul(y).sum()

    return (x,), loss


def checkpointed():
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(3)])
    x = torch.randn(32, 64)

    def loss():
        y = x
        for layer in net:
            y = checkpoint(layer, y, use_reentrant=False, preserve_rng_state=False)
        return y.sum()

    return (net, x), loss


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x)
        ctx.square = square
        return square * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.square * grad


def custom():
    x = torch.randn(64, 64, requires_grad=True)
    return (x,), lambda: Cube.apply(x.cos()).sum()


def frozen():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Sigmoid(), torch.nn.Linear(64, 64))
    net[0].requires_grad_(False)
    x = torch.randn(32, 64)
    return (net, x), lambda: net(x).sum()


@pytest.mark.parametrize("program", [mlp, transformer, rnn, writes, checkpointed, custom, frozen])
def test_the_bytes_are_those_that_the_process_lets_go_of_with_the_graph(program):
    arguments, loss = program()
    for _ in range(3):  # what is kept once and for all is kept by now
        loss()
    tracemalloc.start()
    try:
        result = loss()
        found = torch.residuals(result)
        kept, own = found.bytes_for_backward, result._storage.array.nbytes
        names = [row.name for row in found]
        del found
        with_graph = held()
        del result
        without = held()
    finally:
        tracemalloc.stop()
    assert with_graph - without == kept + own, names
    assert kept > 0 and arguments


def loss_of_two_layers():
    w = torch.ones(3, 2, requires_grad=True)
    x = torch.ones(5, 3)
    hidden = torch.tanh(x @ w)
    return w, x, hidden, (hidden * hidden).sum()


def test_a_row_says_who_made_the_value_and_who_reads_it():
    _, x, _, loss = loss_of_two_layers()
    rows = {row.name: row for row in torch.residuals(loss)}
    assert set(rows) == {"hidden", "x"}  # of w nothing is read: x needs no gradient
    hidden = rows["hidden"]
    assert (hidden.type, hidden.bytes, hidden.kind) == ("f32[5,2]", 40, "intermediate")
    assert hidden.made.text == "hidden = torch.tanh(x @ w)"
    assert [(r.rule, r.source.text) for r in hidden.read] == [
        ("tanh", "hidden = torch.tanh(x @ w)"),
        ("mul", "return w, x, hidden, (hidden * hidden).sum()"),
    ]
    assert rows["x"].kind == "argument" and rows["x"].made is None
    assert rows["x"].bytes == x.numel() * 4


def test_shared_memory_counts_once_and_views_are_named():
    x = torch.ones(8, requires_grad=True)
    base = x * 2
    part = base[2:4]
    loss = part.sin().sum() + base.cos().sum()
    rows = {row.name: row for row in torch.residuals(loss)}
    assert (rows["part"].view, rows["part"].shared, rows["part"].bytes) == ("base", None, 32)  # the whole is held
    assert (rows["base"].view, rows["base"].shared, rows["base"].bytes) == (None, "part", 0)
    assert "view of base" in str(torch.residuals(loss))


def test_a_weights_transpose_is_the_arguments_memory():
    layer = torch.nn.Linear(4, 3)
    found = torch.residuals(layer(torch.ones(2, 4, requires_grad=True)).sum())
    (weight,) = [row for row in found if row.view is not None]
    assert weight.kind == "argument" and weight.view == "weight of layer" and found.bytes_for_backward == 0


def test_totals_by_module():
    net = torch.nn.Sequential(Attention(8), Block(8))
    found = torch.residuals(net(torch.ones(2, 3, 8)).sum())
    assert sum(found.by_module.values()) == sum(found.by_function.values()) == found.bytes
    assert {"0.out", "1.first", "1.norm"} <= set(found.by_module)
    assert "By module whose operations keep them:" in str(found)


def test_after_backward_nothing_is_kept():
    _, _, _, loss = loss_of_two_layers()
    assert torch.residuals(loss)
    loss.backward()
    assert not torch.residuals(loss) and str(torch.residuals(loss)) == "Nothing is kept for backward."


def test_several_results_and_no_tensors():
    x = torch.ones(3, requires_grad=True)
    assert torch.residuals([x.exp().sum(), x.sin().sum()]).bytes == 24
    with pytest.raises(TypeError, match="residuals takes a tensor, such as a loss, and not float"):
        torch.residuals([1.0])
