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


def test_modules_and_names_by_path():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Net() for _ in range(2)])

        def forward(self, x):
            for layer in self.layers:
                x = nn.functional.pad(layer(x), (0, 1))
            return x

    def made_here():
        parts = [nn.Linear(4, 4), nn.Linear(4, 1)]
        stack = Stack()
        return parts, stack, parts[1](stack(parts[0](torch.ones(2, 4)))).sum()

    parts, stack, loss = made_here()
    graph = torch.graph_of(loss)
    paths = [node.source.module for node in graph]
    assert list(dict.fromkeys(paths)) == ["", "layers.0.fc1", "layers.0", "layers.0.fc2", "layers.1.fc1", "layers.1",
                                          "layers.1.fc2"]  # fmt: skip
    assert {"layers.0.fc1.weight", "layers.1.fc2.bias"} < set(graph.names)
    assert {"parts[0].weight", "parts[1].bias"} < set(graph.names)


def test_parameters_of_one_path_have_their_owners():
    encoder, head = nn.Linear(2, 3), nn.Linear(3, 1)
    graph = torch.graph_of(head(encoder(torch.ones(4, 2))).sum())
    assert graph.names[:4] == ("encoder.bias", "encoder.weight", "head.bias", "head.weight")


def test_a_write_into_a_view():
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = w * 2.0
    h[1:].mul_(w[:2])
    h[0] = 5.0
    graph = torch.graph_of((h * w).sum()).check()
    values = w.detach().numpy()
    data = {"src of copy": np.float32(5.0)}
    np.testing.assert_allclose(graph({"w": values}, data), (h * w).sum().item())
    (h * w).sum().backward(retain_graph=True)
    np.testing.assert_allclose(graph.grad()({"w": values}, data)["w"], w.grad.numpy())


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        inner = x.exp()
        ctx.save_for_backward(x, inner)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_custom_function_is_one_operation():
    w = torch.ones(3, requires_grad=True)
    graph = torch.graph_of(Double.apply(w * 3.0).sum())
    (node,) = [node for node in graph if node.op.name == "named_call"]
    assert node.params["label"] == "Double"
    assert node.source.text == "graph = torch.graph_of(Double.apply(w * 3.0).sum())"
    assert "Double" in graph.to_text()
    gradient = graph.grad()
    assert "Double.backward" in gradient.to_text()
    with pytest.raises(fgrad.errors.UnrecordedError, match=r"'Double' cannot be run.*torch\.capture"):
        graph(arrays(w=w), {})
    drawing = torch.draw(Double.apply(w * 3.0).sum())
    assert "Double" in str(drawing)
    # what it saves: its operand, and a value of its own
    assert len([pair for pair in drawing.ladder.rows if pair.backward]) == 3
    with pytest.raises(fgrad.errors.UndefinedDerivativeError, match="was not recorded"):
        fgrad.jvp(lambda w: graph({"w": w}, {}), (jnp.ones(3),), (jnp.ones(3),))


def test_hooks_of_modules_are_no_operations():
    net, x, _ = made()
    plain = torch.graph_of(net(x).sum())
    net.fc1.register_full_backward_hook(lambda *args: None)
    assert len(torch.graph_of(net(x).sum())) == len(plain)


def test_what_has_no_graph():
    with pytest.raises(RuntimeError, match="has no history"):
        torch.graph_of(torch.ones(3))
