"""Tensors by name, in one batch, and a module of them."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"x": torch.randn(6, 3), "nested": {"y": torch.zeros(6, 1)}}, batch_size=[6])
first = TensorDictModule(torch.nn.Linear(3, 4), in_keys=["x"], out_keys=["hidden"])
second = TensorDictModule(torch.nn.Linear(4, 1), in_keys=["hidden"], out_keys=["z"])
model = TensorDictSequential(first, second)
found = model(data)
loss = (found["z"] - found["nested", "y"]).square().mean()
loss.backward()
stacked = torch.stack([data, data], 0).reshape(-1)
outputs = {"z": found["z"], "grad": first.module.weight.grad, "stacked": stacked["x"], "part": data[1:3]["x"]}
