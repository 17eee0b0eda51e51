"""Steps of optimisers of the collection."""

import pytorch_optimizer
import torch

outputs = {}
for name in ("AdaBelief", "Adan", "CAME", "Lamb", "Lion", "MADGRAD", "Prodigy", "QHAdam", "SGDP", "Tiger"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    optimizer = getattr(pytorch_optimizer, name)(model.parameters())
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    outputs[name] = torch.stack(losses)
