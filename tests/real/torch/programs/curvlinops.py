"""Products with the Hessian, the Gauss-Newton matrix and Kronecker factors of a network's loss."""

import curvlinops
import numpy as np
import torch

rng = np.random.default_rng(0)
x = torch.tensor(rng.standard_normal((6, 3)).astype(np.float32))
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
with torch.no_grad():
    for parameter in net.parameters():
        parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape)))
parameters, data = list(net.parameters()), [(x[:3], torch.tensor([0, 1, 0])), (x[3:], torch.tensor([1, 1, 0]))]
vector = torch.tensor(rng.standard_normal(sum(p.numel() for p in parameters)).astype(np.float32))
outputs = {}
for kind in ("HessianLinearOperator", "GGNLinearOperator", "EFLinearOperator", "KFACLinearOperator"):
    operator = getattr(curvlinops, kind)(net, torch.nn.CrossEntropyLoss(), parameters, data, check_deterministic=False)
    outputs[kind] = operator @ vector
