"""What the user calls tensors, nodes, and the modules that operations run in."""

import gc
import weakref

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.modes import modes
from fgrad.mutable.explain.names import module_path, name_of, name_of_node


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = torch.nn.Linear(2, 2)

    def forward(self, x):
        hidden = self.attn(x).sin()
        return hidden * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def nodes_of(loss):
    node, found = loss.grad_fn, []
    while node is not None and node.next_functions:
        found.append(node)
        node = node.next_functions[1 if node.name().startswith("Addmm") else 0][0]
    return found


def test_a_node_has_the_variable_and_the_module_of_its_line():
    net = Net()
    loss = net(torch.ones(1, 2, requires_grad=True)).sum()
    found = [(node.name(), module_path(node), name_of_node(node)) for node in nodes_of(loss)]
    assert found == [
        ("SumBackward0", "", "loss"),
        ("MulBackward0", "blocks.1", None),
        ("SinBackward0", "blocks.1", "hidden"),
        ("AddmmBackward0", "blocks.1.attn", None),
        ("MulBackward0", "blocks.0", None),
        ("SinBackward0", "blocks.0", "hidden"),
        ("AddmmBackward0", "blocks.0.attn", None),
    ]


def test_looking_for_a_name_calls_no_method_of_the_users():
    class Mapping(dict):
        def items(self):
            raise KeyError

    class Sequence(list):
        def __getitem__(self, key):
            raise KeyError

    class Attributes:
        __slots__ = ()

        def __getattr__(self, name):
            raise KeyError(name)

    mapping, sequence, attributes = Mapping(a=1), Sequence([1]), Attributes()
    name_of(torch.ones(2))  # which is in no variable, so that all are searched
    mapping["b"] = torch.ones(2)
    name = name_of(dict.__getitem__(mapping, "b"))
    assert name == "'b' of 'mapping'"
    del sequence, attributes


def test_a_module_that_stands_in_no_other_goes_by_its_class():
    other = torch.nn.Linear(2, 2)

    class Outer(torch.nn.Module):
        def forward(self, x):
            return other(x)

    assert module_path(Outer()(torch.ones(1, 2)).grad_fn) == "Linear"


def test_hooked_modules_have_a_scope_too():
    net = Net()
    net.blocks[0].register_full_backward_hook(lambda *args: None)
    nodes = nodes_of(net(torch.ones(1, 2, requires_grad=True)))
    assert [module_path(node) for node in nodes if node.name() == "AddmmBackward0"] == [
        "blocks.1.attn",
        "blocks.0.attn",
    ]


def test_a_scope_ends_with_its_call_and_keeps_no_module_alive():
    class Failing(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    failing = Failing()
    with pytest.raises(ValueError, match="no"):
        failing(1)
    assert modes.module is None
    net = Net()
    out = net(torch.ones(1, 2))
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None
    assert module_path(out.grad_fn) == ""


def test_a_tensor_of_a_function_that_has_returned_has_the_name_of_its_variable():
    def forward(x):
        hidden = x * 2
        return [hidden]

    x = torch.ones(2, requires_grad=True)
    assert name_of(x) == "'x'"
    found = [name_of(forward(x)[0]), name_of(x * 2 + 1)]
    assert found == ["'hidden'", None]
