"""Laplace's approximation of a classifier's posterior: predictions and marginal likelihood."""

import numpy as np
import torch
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(0)
x = torch.tensor(rng.standard_normal((12, 3)).astype(np.float32))
net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
with torch.no_grad():
    for parameter in net.parameters():
        parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape) * 0.7))
outputs = {}
for structure in ("diag", "kron", "full"):
    posterior = Laplace(net, "classification", subset_of_weights="all", hessian_structure=structure)
    posterior.fit(DataLoader(TensorDataset(x, torch.arange(12) % 3), batch_size=6))
    outputs[f"{structure}, evidence"] = posterior.log_marginal_likelihood()
    outputs[f"{structure}, predicted"] = posterior(x[:4], link_approx="probit")
