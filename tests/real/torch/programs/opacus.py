"""Training with gradients of samples that are clipped; the noise is left out."""

import torch
from opacus import PrivacyEngine

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randint(2, (16,))), 4)
model, optimizer, data = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=data, noise_multiplier=0.0, max_grad_norm=0.5, poisson_sampling=False
)
losses = []
for x, y in data:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
outputs = {"losses": torch.stack(losses), "weight": next(model.parameters())}
