"""The programs of the seed document "What PyTorch's autograd does for us": training, graphs, leaves, three ways out."""

import warnings

import fgrad.torch as torch
import fgrad.torch.nn as nn

x = torch.tensor([2, 4, 6, 8], dtype=torch.float32)
y = torch.tensor([4, 8, 12, 16], dtype=torch.float32)
w = torch.tensor(0, dtype=torch.float32, requires_grad=True)
epochs = 100
lr = 0.01


def forward(x):
    return w * x


optimizer = torch.optim.SGD([w], lr=lr)
loss = nn.MSELoss()
for epoch in range(1, epochs + 1):
    y_hat = forward(x)
    l = loss(y_hat, y)  # noqa: E741
    l.backward()
    optimizer.step()
    optimizer.zero_grad()
    if epoch % 10 == 0:
        print(f"epoch: {epoch + 1}, w: {w:.3f}, loss: {l:.8f}, w.grad: {w.grad}")

print(torch.tensor([1, 2, 3, 4], dtype=torch.float32))
print(torch.tensor(0, dtype=torch.float32, requires_grad=True))

a = torch.tensor(2.0)
b = torch.tensor(3.0)
c = a * b
print(c, c.requires_grad, c.grad_fn, c.is_leaf)

a = torch.tensor(2.0, requires_grad=True)
c = a * b
print(c, c.requires_grad, type(c.grad_fn).__name__, c.is_leaf)
c.backward()
print(a.grad)

# only leaves keep a gradient
a = torch.tensor(2.0, requires_grad=True)
c = a * b
d = torch.tensor(4.0, requires_grad=True)
e = c * d
e.backward()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(f"a.grad -> {a.grad}")
    print(f"c.grad -> {c.grad}")
    print(f"d.grad -> {d.grad}")
    print(f"e.grad -> {e.grad}")
print([warning.category.__name__ for warning in caught])
print(str(caught[0].message).split(" (Triggered")[0].split("\n")[0])

# unless they are asked to
a = torch.tensor(2.0, requires_grad=True)
c = a * b
c.retain_grad()
d = torch.tensor(4.0, requires_grad=True)
e = c * d
e.retain_grad()
e.backward()
print(f"a.grad -> {a.grad}")
print(f"c.grad -> {c.grad}")
print(f"d.grad -> {d.grad}")
print(f"e.grad -> {e.grad}")

# gradients add up until they are cleared: two half batches are one whole one
model = nn.Linear(4, 1, bias=False)
with torch.no_grad():
    model.weight.copy_(torch.tensor([[0.1, 0.2, 0.3, 0.4]]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.arange(16.0).view(4, 1, 4) / 16
accumulation_steps = 2
for i, image in enumerate(batches):
    l = (model(image) ** 2).mean() / accumulation_steps  # noqa: E741
    l.backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(model.weight.data)

# three ways out of recording
x = torch.tensor(3.0, requires_grad=True)
print(x)
x.requires_grad_(False)
print(x)

x = torch.tensor(3.0, requires_grad=True)
y = x.detach()
print(y)

x = torch.tensor(3.0, requires_grad=True)
with torch.no_grad():
    y = x + 2
    print(y)
