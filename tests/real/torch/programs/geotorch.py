"""Layers whose weights stay on manifolds, from the README of geotorch."""

import geotorch
import torch

torch.manual_seed(0)
layers = [torch.nn.Linear(5, 5) for _ in range(4)]
geotorch.orthogonal(layers[0], "weight")
geotorch.positive_definite(layers[1], "weight")
geotorch.sphere(layers[1], "bias")
geotorch.skew(layers[2], "weight")
geotorch.low_rank(layers[3], "weight", 2)
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(4, 5)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = ((model(x) - 1) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
outputs = {"losses": losses} | {f"weight {i}": layer.weight for i, layer in enumerate(layers)}
