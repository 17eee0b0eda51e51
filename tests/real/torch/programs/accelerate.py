"""A training loop in Accelerate's manner."""

import torch
from accelerate import Accelerator

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 2)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
losses = []
for x, y in data:
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.detach())
outputs = {"losses": torch.stack(losses), "weight": model.weight}
