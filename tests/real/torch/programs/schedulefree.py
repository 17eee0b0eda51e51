"""Training without a schedule, from the README of schedulefree."""

import schedulefree
import torch

outputs = {}
kinds = {"SGDScheduleFree": 0.1, "AdamWScheduleFree": 0.01, "RAdamScheduleFree": 0.01}
for name, rate in kinds.items():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = getattr(schedulefree, name)(model.parameters(), lr=rate)
    optimizer.train()
    for _ in range(5):
        optimizer.zero_grad()
        ((model(torch.randn(16, 4)) - torch.randn(16, 2)) ** 2).mean().backward()
        optimizer.step()
    optimizer.eval()
    outputs |= {f"{name} {i}": p for i, p in enumerate(model.parameters())}
