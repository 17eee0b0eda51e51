"""An exponential moving average of parameters, from the README of torch-ema."""

import torch
from torch_ema import ExponentialMovingAverage

torch.manual_seed(0)
x, y = torch.rand(20, 10), torch.rand(20).round().long()
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
ema = ExponentialMovingAverage(model.parameters(), decay=0.95)
losses = []
for _ in range(40):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update()
    losses.append(loss.item())
state = ema.state_dict()
ema.store()
ema.copy_to()
averaged = model(x)
ema.restore()
with ema.average_parameters():
    again = model(x)
other = ExponentialMovingAverage(model.parameters(), decay=0.5)
other.load_state_dict(state)
outputs = {"losses": losses, "averaged": averaged, "again": again, "shadow": other.shadow_params[0]}
