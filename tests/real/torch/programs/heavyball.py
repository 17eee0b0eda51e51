"""Optimisers of heavyball, which bring their own updates of lists of parameters."""

import heavyball
import torch

heavyball.utils.compile_mode = None
outputs = {}
for name in ("AdamW", "SFAdamW", "ADOPT", "LaProp", "PSGDKron", "SGD", "RMSprop", "Muon"):
    optimizer_class = getattr(heavyball, f"Foreach{name}", None) or getattr(heavyball, name)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 4)
    x = torch.randn(5, 3)
    optimizer = optimizer_class(model.parameters(), lr=1e-2)
    for _ in range(3):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    outputs |= {f"{name} {key}": p for key, p in model.named_parameters()}
