"""Distances between point clouds, by optimal transport and by kernels, and their gradients."""

import torch
from geomloss import SamplesLoss

LOSSES = {
    "sinkhorn": {"loss": "sinkhorn", "p": 2, "blur": 0.1},
    "unbalanced": {"loss": "sinkhorn", "p": 1, "blur": 0.2, "debias": False, "reach": 0.5},
    "energy": {"loss": "energy"},
    "gaussian": {"loss": "gaussian", "blur": 0.5},
    "laplacian": {"loss": "laplacian", "blur": 0.5},
}
torch.manual_seed(0)
x, y = torch.rand(6, 2, requires_grad=True), torch.rand(7, 2)
outputs = {}
for name, options in LOSSES.items():
    outputs[name] = loss = SamplesLoss(backend="tensorized", **options)(x, y)
    (outputs[f"{name} gradient"],) = torch.autograd.grad(loss, x)
