"""The graph of a torch loss: its forward pass from the leaves, with their names, and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        return self.fc2(h.view(-1, 8) * 2.0 + 1.0)


def made():
    torch.manual_seed(0)
    return Net(), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])


def arrays(**tensors):
    return {name: np.asarray(tensor.detach().numpy()) for name, tensor in tensors.items()}


def test_a_network_and_its_gradient():
    net, x, y = made()
    loss = nn.functional.cross_entropy(net(x), y)
    graph = torch.graph_of(loss).check()
    assert isinstance(graph, fgrad.Graph)
    assert graph.names == ("fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight", "x", "y")
    assert graph.out_names == ("loss",)
    assert graph.values["h"].node is not None
    leaves, data = arrays(**dict(net.named_parameters())), arrays(x=x, y=y)
    np.testing.assert_allclose(graph(leaves, data), loss.item(), rtol=1e-6)
    loss.backward()
    gradient = graph.grad()(leaves, data)
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(gradient[name], parameter.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_lines_are_the_users():
    net, x, y = made()
    graph = torch.graph_of(nn.functional.cross_entropy(net(x), y))
    assert {node.source.file for node in graph} == {__file__}


def test_after_backward():
    net, x, y = made()
    loss = nn.functional.cross_entropy(net(x), y)
    before = torch.graph_of(loss)
    loss.backward()
    after = torch.graph_of(loss).check()
    assert after.names[:4] == before.names[:4]
    assert len(after) == len(before)


def test_one_tensor_at_several_places_is_one_input():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    x = torch.tensor([3.0, 4.0])
    graph = torch.graph_of((w * x + (w * w) * x).sum())
    assert graph.names == ("w", "x")
    np.testing.assert_allclose(graph.grad()(arrays(w=w), arrays(x=x))["w"], x.numpy() * (1 + 2 * w.detach().numpy()))


def test_what_no_derivative_reads_is_an_input_of_its_own():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    shift = torch.tensor([1.0, 1.0])
    graph = torch.graph_of((w + shift).sum())
    assert graph.names[0] == "w"
    assert len(graph.names) == 2


def test_in_place_operations():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    h = w * 2.0
    h.mul_(3.0)
    graph = torch.graph_of(h.sin().sum())
    np.testing.assert_allclose(graph(arrays(w=w), {}), np.sin(w.detach().numpy() * 6).sum(), rtol=1e-6)


def test_a_loop_repeats():
    net, x, _ = made()
    layers = [nn.Linear(4, 4) for _ in range(6)]
    h = x
    for layer in layers:
        h = torch.tanh(layer(h))
    (block,) = torch.graph_of(h.sum()).outline().blocks
    assert block.count == 6


def test_as_a_program():
    net, x, y = made()
    graph = torch.graph_of(nn.functional.mse_loss(net(x), torch.ones(5, 3)))
    held = {}
    source = graph.to_python(constants=held)
    assert "fc1_weight = arg0['fc1.weight']" in source
    scope = {"constants": held}
    exec(source, scope)
    types = [dict(zip(names, map(jnp.zeros, shapes), strict=True)) for names, shapes in parts(graph)]
    with jax.enable_x64(True):  # PyTorch's numbers have 64 bits
        assert fgrad.make_graph(scope["program"])(*types) == graph


def parts(graph):
    n = 4
    shapes = [t.shape for t in graph.in_types]
    return (graph.names[:n], shapes[:n]), (graph.names[n:], shapes[n:])


def test_what_has_no_graph():
    with pytest.raises(RuntimeError, match="has no history"):
        torch.graph_of(torch.ones(3))

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"DoubleBackward at test_graph_of.py:\d+ is no operation of the table"):
        torch.graph_of(Double.apply(w).sum())
