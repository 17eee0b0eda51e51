"""``why_no_grad`` on programs that lose a gradient: it names what loses it, with the line, and nothing else."""

import inspect
import re

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.torch import nn


def line(function, text):
    lines, first = inspect.getsourcelines(function)
    (at,) = [k for k, each in enumerate(lines) if text in each]
    return f"test_why_no_grad.py:{first + at}"


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


X = torch.tensor(np.random.default_rng(0).normal(size=(5, 3)).astype("float32"))


def without_recording(net):
    with torch.no_grad():
        y = net(X)
    return (y**2).mean()


def detached(net):
    hidden = net[0](X).detach()
    return net[2](net[1](hidden)).mean()


def by_data(net):
    hidden = net[0](X).data
    return net[2](net[1](hidden)).mean()


def rounded_to_labels(net):
    labels = net(X).round().long()
    return (labels * 1.0).mean()


def through_numpy(net):
    hidden = net[0](X)
    other = torch.from_numpy(np.tanh(hidden.detach().numpy()))
    return net[2](other).mean()


def through_a_number(net):
    size = net[0].weight.abs().sum().item()
    return net[2](torch.ones(4) * size).mean()


def through_a_parameter(net):
    weight = nn.Parameter(net[0].weight * 2)
    return (X @ weight.T).mean()


def through_a_clone(net):
    weight = nn.Parameter(net[0].weight.clone())
    return (X @ weight.T).mean()


def through_a_copy(net):
    copy = nn.Linear(3, 4)
    with torch.no_grad():
        copy.weight.copy_(net[0].weight)
    return copy(X).mean()


@pytest.mark.parametrize(
    ("program", "kind", "text"),
    [
        (without_recording, "no_grad", "y = net(X)"),
        (detached, "detach", "detach()"),
        (by_data, "data", ".data"),
        (rounded_to_labels, "not differentiable", "long()"),
        (through_numpy, "read", "numpy()"),
        (through_a_number, "read", "item()"),
        (through_a_parameter, "leaf", "nn.Parameter("),
        (through_a_clone, "leaf", "nn.Parameter("),
        (through_a_copy, "no_grad", "copy_("),
    ],
)
def test_what_loses_the_gradient(program, kind, text):
    net = network()
    why = torch.why_no_grad(program(net), net[0].weight)
    assert why and not why.connected
    assert why.kind == kind
    assert line(program, text) in why.reason
    others = set(re.findall(r"test_why_no_grad\.py:\d+", why.reason)) - {line(program, text)}
    assert not others


def test_parameters_in_one_table():
    net = network()
    table = torch.why_no_grad(detached(net), net)
    assert list(table) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [why.connected for why in table.entries.values()] == [False, False, True, True]
    assert table and table["0.bias"].kind == "detach" and not table["2.bias"]
    assert re.search(r"0\.weight +no +detach", str(table)) and re.search(r"2\.weight +yes", str(table))
    assert "Leave it out" in str(table) and "<table>" in table._repr_html_()
    assert not torch.why_no_grad(net(X).mean(), net)


def test_without_a_second_argument_the_callers_variables_are_asked():
    net = network()
    scale = torch.ones(1, requires_grad=True)  # noqa: F841  (it is found in this function's variables)
    loss = detached(net)
    table = torch.why_no_grad(loss)
    assert {"net.0.weight", "net.2.bias", "scale"} <= set(table)
    assert table["scale"].kind == "unused" and not table["net.2.bias"]


def test_a_frozen_layer():
    net = network()
    net[0].requires_grad_(False)
    table = torch.why_no_grad(net(X).mean(), net)
    assert table["0.weight"].kind == "does not require grad" and not table["2.weight"]


def test_a_gradient_that_is_not_kept():
    net = network()
    hidden = net[0](X)
    loss = net[2](hidden).mean()
    why = torch.why_no_grad(loss, hidden)
    assert why and why.connected and why.kind == "not a leaf"
    assert (
        "retain_grad()" in why.reason and line(test_a_gradient_that_is_not_kept, "hidden = net[0](X)\n") in why.reason
    )
    hidden.retain_grad()
    assert not torch.why_no_grad(loss, hidden)


def test_a_training_loop_does_not_list_what_it_shows():
    """What a loop prints of its loss is no reason that something else has no gradient."""
    net, other = network(), network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    shown = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (net(X) ** 2).mean()
        loss.backward()
        optimizer.step()
        shown.append(loss.item())
    why = torch.why_no_grad(other(X).mean(), net[0].weight)
    assert why.kind == "unused" and "item()" not in str(why)
    assert "other" in why.reason  # what it does depend on


def test_reads_of_other_functions_are_not_listed():
    net = network()
    through_a_number(net)
    why = torch.why_no_grad(through_numpy(net), net[0].weight)
    assert line(through_numpy, "numpy()") in why.reason
    assert "item()" not in why.reason.replace("item(), tolist()", "")


@pytest.fixture
def other_program():
    def result():
        return (torch.ones(3, requires_grad=True) * 2).sum().item()

    return result()


def test_another_programs_function_of_a_common_name_is_not_listed(other_program):
    """What it read is gone, and a line that waits for the question's answer uses the same name."""

    class Asked:
        def result(self):
            return torch.why_no_grad((torch.ones(1, requires_grad=True) * 2).sum(), torch.ones(2, requires_grad=True))

    assert Asked().result().kind == "unused"


def test_what_was_only_printed_is_not_listed():
    net, scale = network(), torch.ones(1, requires_grad=True)
    print(net(X).mean().item())
    why = torch.why_no_grad((scale * 2).sum(), net[0].weight)
    assert why.kind == "unused" and "item()" not in str(why)


def test_a_number_that_is_kept_and_handed_on():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.gain = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(1))

        def size(self):
            return [p.norm().item() for p in (self.weight,)]

        def forward(self, x):
            sizes = []
            sizes.extend(self.size())
            self.factor, _ = sizes[0], print(end="")
            return x * self.factor * self.gain

    model = Scaled()
    table = torch.why_no_grad(model(X).mean(), model)
    assert not table["gain"] and table["weight"].kind == "read"
    assert line(Scaled, "p.norm().item()") in table["weight"].reason


def test_a_number_of_an_earlier_cell():
    """As in a notebook: the cell that has read it is not running any more."""
    scope = {"torch": torch}
    cells = [
        "w, u = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)",
        "print((w * 2).sum().item())",
        "size = (w * 3).sum().item()",
        "shown = [p.sum().item() for p in (w, u)]",
        "loss = (u * size).sum()",
        "used = torch.why_no_grad(loss, w)",
        "unused = torch.why_no_grad((u * 2).sum(), w)",
    ]
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"<cell-{number}>", "exec"), scope)
    assert re.findall("<cell-.>", scope["used"].reason) == ["<cell-3>"]
    assert scope["unused"].kind == "unused"


def test_integers_and_what_is_asked_wrongly():
    y = torch.ones(1, requires_grad=True) * 2
    assert torch.why_no_grad(y, torch.ones(2, dtype=torch.int64)).kind == "integer"
    with pytest.raises(TypeError, match="a tensor or a module as its second argument, not int"):
        torch.why_no_grad(y, 3)
    with pytest.raises(TypeError, match="got float first"):
        torch.why_no_grad(3.0)


# -- errors ----------------------------------------------------------------------------------------------------------


def test_backward_without_history_says_why():
    net = network()
    text = "element 0 of tensors does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError) as error:
        without_recording(net).backward()
    assert str(error.value).startswith(f"{text}\n\nThe way breaks at ")
    assert line(without_recording, "y = net(X)") in str(error.value)
    nothing = torch.ones(1).sum()
    with pytest.raises(RuntimeError) as error:
        nothing.backward()
    assert str(error.value).startswith(text) and "requires_grad_()" in str(error.value)

    def loss():
        return torch.tensor(net(X).mean().item())

    with pytest.raises(RuntimeError) as error:
        loss().backward()
    assert line(loss, "item()") in str(error.value)


def test_an_unused_input_says_why():
    net = network()
    loss = detached(net)
    with pytest.raises(RuntimeError) as error:
        torch.autograd.grad(loss, [net[2].weight, net[0].weight])
    message = str(error.value)
    assert message.startswith("The differentiated Tensor at index 1 appears to not have been used in the graph. Set")
    assert "The way breaks at detach" in message and line(detached, "detach()") in message
