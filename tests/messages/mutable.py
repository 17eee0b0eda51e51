"""Mistakes that users of PyTorch make with autograd, modules, losses and optimisers.

Each program takes ``torch`` or ``fgrad.torch``.
"""

import copy
from typing import Any

from tests.messages.mistake import registry

MISTAKES, mistake = registry()


def mlp(torch: Any) -> Any:
    """Two layers of which the second expects another width than the first gives."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
            self.head = nn.Linear(16, 2)

        def forward(self, x):
            h = self.body(x)
            return self.head(h)

    return Net()


# -- backward --------------------------------------------------------------------------------------------------------


@mistake("backward of what is no scalar", "the tensor, the line that made it, and the ways out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    losses = (w * 2) ** 2
    losses.backward()


@mistake("a second backward through one graph", "what was freed, by which line, and the way out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    hidden = w.exp()
    for _ in range(2):
        loss = (hidden * 2).sum()
        loss.backward()


@mistake("backward of a detached loss", "the tensor, and where to look")
def _(torch: Any) -> Any:
    model = torch.nn.Linear(3, 1)
    loss = model(torch.ones(2, 3)).detach().mean()
    loss.backward()


@mistake("backward of a loss computed under no_grad", "the tensor, and where to look")
def _(torch: Any) -> Any:
    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        loss = model(torch.ones(2, 3)).mean()
    loss.backward()


@mistake(".item() in a loss", "the tensor, and where to look")
def _(torch: Any) -> Any:
    model = torch.nn.Linear(3, 1)
    losses = [model(torch.ones(2, 3)).mean().item() for _ in range(2)]
    loss = torch.tensor(losses).mean()
    loss.backward()


@mistake("a loss through NumPy", "the line that made it, and when detach() is wrong")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    return (w * 2).numpy().sum()


@mistake("a loss from argmax", "the tensor, and where to look")
def _(torch: Any) -> Any:
    model = torch.nn.Linear(3, 4)
    predicted = model(torch.ones(2, 3)).argmax(1)
    loss = (predicted.float() - 1).abs().mean()
    loss.backward()


@mistake("a second derivative without create_graph", "the tensor, and create_graph among the causes")
def _(torch: Any) -> Any:
    x = torch.tensor(2.0, requires_grad=True)
    y = x**3
    (first,) = torch.autograd.grad(y, x)
    (second,) = torch.autograd.grad(first, x)
    return second


@mistake("the gradient of what was not used", "the tensors by name, and where to look")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    unused = torch.ones(3, requires_grad=True)
    loss = (w * 2).sum()
    return torch.autograd.grad(loss, [w, unused])


@mistake("the gradient of a re-created leaf", "the tensors by name, and where to look")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    copied = torch.nn.Parameter(w.clone())
    loss = copied.sum()
    return torch.autograd.grad(loss, w)


@mistake(".grad of a tensor that is no leaf", "the tensor, and the line that made it")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    hidden = w * 2
    hidden.sum().backward()
    return hidden.grad


@mistake("a gradient of the wrong shape for backward", "the tensor, and the line that made it")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    out = w * 2
    out.backward(torch.ones(2))


@mistake("requires_grad of integers", "the tensor, and the way out")
def _(torch: Any) -> Any:
    counts = torch.tensor([1, 2, 3])
    counts.requires_grad_()


@mistake("requires_grad = False on a result", "the tensor, and the line that made it")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    hidden = w * 2
    hidden.requires_grad = False


@mistake("retain_grad of what needs no gradient", "the tensor, and the way out")
def _(torch: Any) -> Any:
    x = torch.ones(3)
    x.retain_grad()


@mistake("an assignment to .grad of another shape", "the tensor by name")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.ones(2)


@mistake("a deep copy of a result", "the line that made it, and the ways out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    hidden = w * 2
    return copy.deepcopy(hidden)


# -- writes ----------------------------------------------------------------------------------------------------------


@mistake("a write to a leaf", "the tensor, why, and the ways out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    w -= 0.1


@mistake("a write to a view of a leaf", "the leaf, the line of the view, and the ways out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    w[0] = 0.0


@mistake("a write to a saved value", "who saved it, who wrote it, its name, and the way out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    hidden = w.sigmoid()
    hidden += 1
    hidden.sum().backward()


@mistake(
    "an optimiser step between forward and backward", "that the optimiser wrote it, which parameter, and the way out"
)
def _(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first, second = (model(torch.ones(2, 3)).mean() for _ in range(2))
    first.backward()
    optimizer.step()
    second.backward()


@mistake("a write to a part of a split", "the tensor, and the line of the split")
def _(torch: Any) -> Any:
    w = torch.ones(4, requires_grad=True)
    a, _ = (w * 2).split(2)
    a.add_(1)


@mistake("a write to an expanded tensor", "the tensor, and what expand does")
def _(torch: Any) -> Any:
    row = torch.zeros(1, 3)
    rows = row.expand(2, 3)
    rows.add_(1)


# -- shapes and types ------------------------------------------------------------------------------------------------


@mistake("layers that do not fit", "the layer's path and parameters, and the line that made its input")
def _(torch: Any) -> Any:
    net = mlp(torch)
    return net(torch.ones(5, 4))


@mistake("an image that was not flattened", "the layer's path, what it was given, and the way out")
def _(torch: Any) -> Any:
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(4 * 26 * 26, 10))
    return model(torch.ones(2, 1, 28, 28))


@mistake("channels in the last place", "the layer's path, and the permutation")
def _(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3))
    return model(torch.ones(2, 32, 32, 3))


@mistake("doubles into a layer of floats", "the layer's path, the tensor, and the ways out")
def _(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    data = torch.ones(5, 4, dtype=torch.float64)
    return model(data)


@mistake("integers into a layer", "the tensor, the layer, and the ways out")
def _(torch: Any) -> Any:
    model = torch.nn.Linear(4, 2)
    pixels = torch.ones(5, 4, dtype=torch.int64)
    return model(pixels)


@mistake("a bias that does not broadcast", "the tensors by name, and the way out")
def _(torch: Any) -> Any:
    logits = torch.ones(5, 2)
    bias = torch.zeros(5)
    return logits + bias


@mistake("a product of matrices that do not fit", "the tensors by name, and the way out")
def _(torch: Any) -> Any:
    queries = torch.ones(2, 5, 8)
    keys = torch.ones(2, 5, 8)
    return queries @ keys


@mistake("an einsum whose sizes differ", "the tensors by name")
def _(torch: Any) -> Any:
    queries, keys = torch.ones(3, 8), torch.ones(3, 4)
    return torch.einsum("td,sd->ts", queries, keys)


@mistake("parts that do not concatenate", "the tensors by name, and the ways out")
def _(torch: Any) -> Any:
    left, right = torch.ones(2, 3), torch.ones(2, 4)
    return torch.cat([left, right])


@mistake("view of a transposed tensor", "the tensor by name")
def _(torch: Any) -> Any:
    scores = torch.ones(2, 3).t()
    return scores.view(6)


@mistake("a reshape to another size", "the tensor by name, and the way out")
def _(torch: Any) -> Any:
    images = torch.ones(2, 3, 5)
    return images.reshape(2, 16)


@mistake("an index out of range", "the tensor by name, and what indices it takes")
def _(torch: Any) -> Any:
    rows = torch.ones(4, 3)
    return rows[4]


@mistake("if on a tensor of many elements", "the tensor by name, and the ways out")
def _(torch: Any) -> Any:
    mask = torch.ones(3) > 0
    return 1 if mask else 0


@mistake(".item() of several elements", "the tensor by name, and the ways out")
def _(torch: Any) -> Any:
    losses = torch.ones(3)
    return losses.item()


@mistake("a tensor from rows of different lengths", "the way out")
def _(torch: Any) -> Any:
    return torch.tensor([[1.0, 2.0], [3.0]])


@mistake("an index into an embedding out of range", "the embedding with its size, the tensor, and the way out")
def _(torch: Any) -> Any:
    embedding = torch.nn.Embedding(10, 3)
    tokens = torch.tensor([1, 10])
    return embedding(tokens)


@mistake("floats into an embedding", "the tensor by name, and the way out")
def _(torch: Any) -> Any:
    embedding = torch.nn.Embedding(10, 3)
    tokens = torch.tensor([1.0, 2.0])
    return embedding(tokens)


@mistake("batch norm with one sample", "the layer's path, what it was given, and three ways out")
def _(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    return model(torch.ones(1, 4))


@mistake("a recurrent layer given another width", "the tensor, and both ways out")
def _(torch: Any) -> Any:
    model = torch.nn.LSTM(input_size=8, hidden_size=4, batch_first=True)
    frames = torch.ones(2, 5, 6)
    return model(frames)


# -- losses ----------------------------------------------------------------------------------------------------------


@mistake("cross entropy with targets out of range", "the tensors by name and shape, and the ways out")
def _(torch: Any) -> Any:
    logits, labels = torch.zeros(3, 2), torch.tensor([1, 2, 0])
    return torch.nn.CrossEntropyLoss()(logits, labels)


@mistake("cross entropy with float class numbers", "the tensor by name, and the way out")
def _(torch: Any) -> Any:
    logits, labels = torch.zeros(3, 2), torch.tensor([1.0, 0.0, 0.0])
    return torch.nn.functional.cross_entropy(logits, labels)


@mistake("cross entropy with targets of one column", "the tensor by name, and the way out")
def _(torch: Any) -> Any:
    logits, labels = torch.zeros(3, 2), torch.tensor([[1], [0], [0]])
    return torch.nn.functional.cross_entropy(logits, labels)


@mistake("a mean squared error that broadcasts", "the way out")
def _(torch: Any) -> Any:
    predicted, wanted = torch.zeros(3, 1), torch.ones(3)
    return torch.nn.functional.mse_loss(predicted, wanted)


@mistake("binary cross entropy of logits", "the loss that takes logits")
def _(torch: Any) -> Any:
    logits, labels = torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0])
    return torch.nn.functional.binary_cross_entropy(logits, labels)


@mistake("binary cross entropy with a column more", "the tensors by name, and the way out")
def _(torch: Any) -> Any:
    predicted, labels = torch.full((3, 1), 0.5), torch.ones(3)
    return torch.nn.BCELoss()(predicted, labels)


# -- modules and optimisers ------------------------------------------------------------------------------------------


@mistake("layers assigned before super().__init__()", "the way out")
def _(torch: Any) -> Any:
    class Net(torch.nn.Module):
        def __init__(self):
            self.head = torch.nn.Linear(4, 2)

    return Net()


@mistake("a module without forward", "where to look")
def _(torch: Any) -> Any:
    class Net(torch.nn.Module):
        def foward(self, x):
            return x

    return Net()(torch.ones(2))


@mistake("a misspelt layer")
def _(torch: Any) -> Any:
    net = mlp(torch)
    return net.haed.weight


@mistake("a tensor assigned where a parameter stands", "the ways out")
def _(torch: Any) -> Any:
    model = torch.nn.Linear(3, 2)
    model.weight = torch.zeros(2, 3)


@mistake("a state dict of another model", "that DataParallel has saved it, and the line that mends it")
def _(torch: Any) -> Any:
    net = mlp(torch)
    state = {f"module.{name}": value for name, value in net.state_dict().items()}
    net.load_state_dict(state)


@mistake("a state dict of another size", "the way out")
def _(torch: Any) -> Any:
    small, large = torch.nn.Linear(3, 2), torch.nn.Linear(4, 2)
    large.load_state_dict(small.state_dict())


@mistake("an optimiser without parameters", "the two usual causes")
def _(torch: Any) -> Any:
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)]

    return torch.optim.SGD(Net().parameters(), lr=0.1)


@mistake("an optimiser of one tensor", "the way out")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    return torch.optim.Adam(w, lr=0.1)


@mistake("an optimiser of a result", "the way out")
def _(torch: Any) -> Any:
    w = torch.randn(3, requires_grad=True) * 0.1
    return torch.optim.Adam([w], lr=0.1)


@mistake("a scheduler before the optimiser")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scheduler.step()


@mistake("gradients that were not zeroed")
def _(torch: Any) -> Any:
    w = torch.ones(2, requires_grad=True)
    for _ in range(2):
        (w * 2).sum().backward()
    return w.grad


# -- functions of one's own ------------------------------------------------------------------------------------------


@mistake("a backward with too many gradients")
def _(torch: Any) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    w = torch.ones(3, requires_grad=True)
    Double.apply(w).sum().backward()


@mistake("a backward with too few gradients")
def _(torch: Any) -> Any:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor

    w = torch.ones(3, requires_grad=True)
    Scale.apply(w, 2.0).sum().backward()


@mistake("a backward with a gradient of the wrong shape")
def _(torch: Any) -> Any:
    class Total(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum(0)

        @staticmethod
        def backward(ctx, grad):
            return grad.sum()[None].expand(2)

    w = torch.ones(3, requires_grad=True)
    Total.apply(w).backward()


@mistake("a number saved for backward")
def _(torch: Any) -> Any:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x, factor)
            return x * factor

    w = torch.ones(3, requires_grad=True)
    return Scale.apply(w, 2.0)


@mistake("a Function that is called and not applied")
def _(torch: Any) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    return Double()(torch.ones(3, requires_grad=True))


@mistake("a Function without backward")
def _(torch: Any) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    w = torch.ones(3, requires_grad=True)
    Double.apply(w).sum().backward()


@mistake("a hook that changes the shape")
def _(torch: Any) -> Any:
    w = torch.ones(3, requires_grad=True)
    hidden = w * 2
    hidden.register_hook(lambda grad: grad.sum())
    hidden.sum().backward()
