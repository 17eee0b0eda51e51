"""What a function can reach: which objects are found, under which names, and how they are restored."""

import functools
from collections import deque

from attrs import define

import fgrad.torch as torch
from fgrad.mutable.capture.snapshot import Snapshot, roots_of
from fgrad.torch.compiler.reachable import snapshot_of


def paths(function, *args):
    return {location.path for location in snapshot_of(function, args, {}).tensors.values()}


def test_closures_containers_and_objects_are_gone_through():
    @define
    class Slotted:
        inner: object

    class Plain:
        pass

    plain = Plain()
    plain.entries, plain.other = {"x": torch.ones(1)}, torch.ones(1)
    slotted = Slotted([torch.ones(1), (torch.ones(1),)])
    queue = deque([torch.ones(1)])
    assert paths(lambda: (plain.entries, slotted, queue)) == {
        "plain.entries['x']", "slotted.inner[0]", "slotted.inner[1][0]", "queue[0]"
    }  # fmt: skip


def test_self_partials_and_functions_that_are_called_are_gone_through():
    weight = torch.ones(1)

    def inner(x):
        return x * weight

    class Trainer:
        def __init__(self):
            self.bias = torch.ones(1)

        def step(self, x):
            return inner(x) + self.bias

    assert paths(Trainer().step) >= {"self.bias"}
    assert len(paths(functools.partial(lambda w, x: w * x, torch.ones(1)), torch.ones(1))) == 2
    assert "weight" in paths(lambda x: inner(x), torch.ones(1))


def test_gradients_and_bases_are_found():
    w = torch.ones(2, requires_grad=True)
    w.sum().backward()
    view = torch.ones(4)[:2]
    assert paths(lambda: (w, view)) == {"w", "w.grad", "view", "view._base"}


def test_what_is_changed_is_seen_and_put_back():
    held = {"numbers": [1, 2], "set": {1}, "tensor": torch.ones(1)}
    snapshot = Snapshot().walk(roots_of(lambda: held))
    assert not list(snapshot.changed())
    held["numbers"].append(3)
    held["set"].add(2)
    held["new"] = 1
    held["tensor"].requires_grad = True
    assert len(list(snapshot.changed())) == 4
    snapshot.restore()
    assert held["numbers"] == [1, 2] and held["set"] == {1} and list(held) == ["numbers", "set", "tensor"]
    assert not held["tensor"].requires_grad and not list(snapshot.changed())


def test_an_optimisers_state_has_the_names_of_parameters():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam([{"params": [model.weight]}, {"params": [model.bias]}])
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    found = snapshot_of(lambda: (model, optimizer), (), {}).tensors.values()
    keys = {location.path: location.keys for location in found}
    assert keys["optimizer.state['bias'].exp_avg"] == ("optimizer", "state", 1, "exp_avg")
    assert keys["model.weight"] == ("model", "weight") and keys["model.weight.grad"] == ("grad", "model", "weight")


def test_a_module_in_a_module_keeps_the_outermost_name():
    net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False)))
    (location,) = snapshot_of(lambda: net, (), {}).tensors.values()
    assert location.path == "net.0.0.weight" and location.keys == ("net", "0.0.weight")
