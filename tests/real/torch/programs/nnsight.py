"""What the layers of a model give, read and changed inside a traced call."""

import torch
from nnsight import NNsight

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
x = torch.randn(2, 4)
seen = NNsight(model)
with seen.trace(x):
    hidden = seen[0].output.save()
    seen[0].output[:, 0] = 1.0
    result = seen.output.save()
outputs = {"hidden": hidden, "result": result}
