"""Normalizing flows, from the README and the examples of nflows."""

import torch
from nflows import distributions, flows, transforms

torch.manual_seed(0)
layers = [
    transforms.MaskedAffineAutoregressiveTransform(features=2, hidden_features=8),
    transforms.RandomPermutation(features=2),
    transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
        features=2, hidden_features=8, tails="linear", tail_bound=3.0, num_bins=4
    ),
    transforms.LULinear(2),
]
flow = flows.Flow(transforms.CompositeTransform(layers), distributions.StandardNormal(shape=[2]))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
losses = []
for _ in range(40):
    x = torch.randn(16, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([0.0, 1.0])
    loss = -flow.log_prob(inputs=x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
outputs = {"losses": losses, "sample": flow.sample(5), "lower": layers[3].lower_entries}
