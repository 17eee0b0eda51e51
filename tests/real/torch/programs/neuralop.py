"""A Fourier neural operator, trained for some steps."""

import numpy as np
import torch
from neuralop.losses import LpLoss
from neuralop.models import FNO

rng = np.random.default_rng(0)
x, y = (torch.tensor(rng.standard_normal((2, 1, 8, 8)).astype(np.float32)) for _ in range(2))
model = FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2)
with torch.no_grad():
    for parameter in model.parameters():
        parts = rng.standard_normal((2, *parameter.shape)) * 0.2
        parameter.copy_(torch.tensor(parts[0] + 1j * parts[1] if parameter.is_complex() else parts[0]))
optimizer, loss_of = torch.optim.SGD(model.parameters(), lr=1e-2), LpLoss(d=2)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
outputs = {"losses": torch.stack(losses), "prediction": model(x)}
