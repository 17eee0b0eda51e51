"""Captured steps as values to compare: names, paths of modules, what changed between two versions."""

import numpy as np

import fgrad
import fgrad.torch as torch
from fgrad.torch.nn import functional as F


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.norm = torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)

    def forward(self, x):
        return x + self.attn(self.norm(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.heads = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 2)})

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.heads["a"](x)


def step_of(net, decay=0.0, clip=False):
    """A step with an average of the weights in a dict."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=decay)
    average = {"weights": [p.detach().clone() for p in net.parameters()]}

    def step(x):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), torch.zeros(4, 2))
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average["weights"], net.parameters(), strict=True):
                a.mul_(0.9).add_(p, alpha=0.1)
        return loss

    return step


def captured(**options):
    torch.manual_seed(0)
    net = Net()
    return torch.capture(step_of(net, **options))(torch.ones(4, 3))


def test_names_of_containers_and_averages():
    graph = captured()
    assert {"net.blocks.1.norm.weight", "net.heads.a.bias", "average['weights'][3]", "args[0]"} <= set(graph.names)
    assert {"net.blocks.0.attn.weight (written)", "average['weights'][9] (written)"} <= set(graph.out_names)


def test_operations_say_which_module_they_are_in():
    text = captured().to_text()
    for path in ("blocks.0.norm", "blocks.1.attn", "heads.a"):
        assert f", {path}" in text


def test_what_changed_is_a_difference_of_two_values():
    plain = captured()
    assert plain == captured() and not plain.diff(captured())
    decayed = str(plain.diff(captured(decay=0.1)))
    assert "+ optimizer.param_groups[0]['weight_decay']: f64[]" in decayed and "0 removed" in decayed
    clipped = plain.diff(captured(clip=True))
    added = [line for line in str(clipped).splitlines() if line.startswith("+")]
    assert added and any("div" in line for line in added)
    assert not any("blocks.0" in line and "norm" in line for line in added)  # the forward is what it was


def test_two_steps_run_side_by_side():
    plain, clipped = captured(), captured(clip=True)
    assert plain.names == clipped.names
    numbers = np.random.RandomState(0)
    values = [np.asarray(numbers.randn(*t.shape), t.dtype) for t in plain.in_types]
    assert not fgrad.compare(plain, captured())(*values)
    found = fgrad.compare(plain, clipped)(*values)
    equal = dict(zip(plain.out_names, [each.equal for each in found.results], strict=True))
    assert found and equal["result"] and not equal["net.blocks.0.attn.weight (written)"]


def test_autocast_views_and_writes_are_captured():
    base = torch.zeros(4)
    weight = torch.ones(4, 2)

    def step(x):
        rows = base.view(2, 2)
        rows[0].add_(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return rows @ weight[:2]

    graph = torch.capture(step)(torch.ones(2))
    assert graph.out_names == ("result", "base (written)") and base.tolist() == [0] * 4
    ones = np.ones((4, 2), "float32")
    given = {"base": np.arange(4, dtype="float32"), "args[0]": ones[0], "weight": ones}
    y, written = graph(*[given[name] for name in graph.names])
    assert y.dtype == "bfloat16" and np.asarray(y, float).tolist() == [[3, 3], [5, 5]]
    assert np.asarray(written).tolist() == [1, 2, 2, 3]
