"""Minima by second-order methods, with the line search of PyTorch's L-BFGS, from the README of pytorch-minimize."""

import torch
from torchmin import Minimizer, least_squares, minimize


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


start = torch.tensor([1.3, 0.7, 0.8, 1.9, 1.2], dtype=torch.float64)
outputs = {}
for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact"):
    outputs[method] = minimize(rosenbrock, start, method=method).x
times = torch.linspace(0, 1, 8, dtype=torch.float64)
fit = least_squares(lambda w: w[0] * torch.exp(-w[1] * times) - 2 * torch.exp(-3 * times), start[:2])
outputs["fit"] = fit.x

torch.manual_seed(0)
model = torch.nn.Linear(3, 1).double()
x, y = torch.randn(10, 3, dtype=torch.float64), torch.randn(10, 1, dtype=torch.float64)
optimizer = Minimizer(model.parameters(), method="bfgs", max_iter=20)


def closure():
    optimizer.zero_grad()
    return torch.nn.functional.mse_loss(model(x), y)


optimizer.step(closure)
outputs |= dict(model.named_parameters())
