"""Sparse alternatives to softmax and their losses, from the README of entmax."""

import entmax
import torch

torch.manual_seed(0)
alpha = torch.tensor(1.3, requires_grad=True)
target = torch.tensor([0, 2, 4])
functions = {
    "sparsemax": lambda x: (entmax.sparsemax(x, dim=-1) ** 2).sum(),
    "entmax15": lambda x: (entmax.entmax15(x, dim=-1) ** 2).sum(),
    "bisection": lambda x: (entmax.entmax_bisect(x, alpha=alpha) ** 2).sum(),
    "normmax": lambda x: (entmax.normmax_bisect(x, alpha=2, dim=-1) ** 2).sum(),
    "budget": lambda x: (entmax.budget_bisect(x, budget=2, dim=-1) ** 2).sum(),
    "sparsemax loss": lambda x: entmax.sparsemax_loss(x, target).sum(),
    "entmax15 loss": lambda x: entmax.entmax15_loss(x, target).sum(),
}
outputs = {}
for name, function in functions.items():
    x = torch.randn(3, 6, requires_grad=True)
    loss = function(x)
    loss.backward()
    outputs |= {name: loss, f"gradient of {name}": x.grad}
outputs["gradient of alpha"] = alpha.grad
