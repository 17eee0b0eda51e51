"""Gradients through differentiable optimisers."""

import torch
import torchopt

torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
scale = torch.tensor(1.0, requires_grad=True)
optimizer = torchopt.MetaAdam(net, lr=0.1)
for _ in range(2):
    optimizer.step((scale * net(x) - y).square().mean())
loss = (net(x) - y).square().mean()
loss.backward()
outputs = {"loss": loss, "scale": scale.grad, "weight": net.weight}

functional = torchopt.FuncOptimizer(torchopt.adam(lr=0.1))
weights = {"weight": torch.ones(1, 3), "bias": torch.zeros(1)}
weights = {name: value.requires_grad_() for name, value in weights.items()}
for _ in range(2):
    loss = (torch.func.functional_call(net, weights, (x,)) - y).square().mean()
    weights = functional.step(loss, weights)
outputs |= {"functional loss": loss, "functional weight": weights["weight"]}
