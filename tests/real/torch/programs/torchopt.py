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
