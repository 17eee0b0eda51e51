"""Gradients through steps of an optimiser."""

import higher
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.randn(16, 3), torch.randn(16, 1)
with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (fast, inner):
    for _ in range(3):
        inner.step((fast(x) - y).square().mean())
    loss = (fast(x) - y).square().mean()
    loss.backward()
outputs = {"loss": loss, "weight": model[0].weight.grad, "bias": model[2].bias.grad}
