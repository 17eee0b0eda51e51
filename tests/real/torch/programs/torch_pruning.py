"""Channels pruned by their gradients; it finds which layers belong together by walking the nodes of autograd."""

import torch
import torch_pruning as tp
from torch import nn


class Net(nn.Module):
    """A residual connection, and a concatenation."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.mix, self.last = nn.BatchNorm2d(8), nn.Conv2d(16, 8, 1), nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x).relu()
        y = torch.cat([x + self.norm(self.second(x)), x], 1)
        return self.last(self.mix(y).relu().mean((2, 3)))


torch.manual_seed(0)
model, x = Net(), torch.randn(2, 3, 8, 8)
model(x).square().mean().backward()
importance = tp.importance.TaylorImportance()
pruner = tp.pruner.MetaPruner(
    model, x, importance=importance, pruning_ratio=0.5, ignored_layers=[model.last], iterative_steps=2
)
for _ in range(2):
    pruner.step()
    model.zero_grad()
    model(x).square().mean().backward()
outputs = dict(model.named_parameters())
outputs |= {f"{name} gradient": parameter.grad for name, parameter in model.named_parameters()}
