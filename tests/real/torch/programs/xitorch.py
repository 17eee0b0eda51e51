"""Roots, integrals, differential equations and eigenvalues with their first and second gradients."""

import torch
import xitorch
from xitorch import integrate, interpolate, linalg, optimize

torch.manual_seed(0)
double = torch.float64


def both_orders(value, *sources):
    """The gradients of a number, and those of the sum of their squares."""
    first = torch.autograd.grad(value, sources, create_graph=True)
    return [*first, *torch.autograd.grad(sum((g * g).sum() for g in first), sources, retain_graph=True)]


a = (torch.eye(3, dtype=double) * 2 + 0.3 * torch.randn(3, 3, dtype=double)).requires_grad_()
b = torch.randn(3, 1, dtype=double, requires_grad=True)
root = optimize.rootfinder(lambda y, a, b: torch.tanh(a @ y) + y - b, torch.zeros(3, 1, dtype=double), params=(a, b))
fixed = optimize.equilibrium(lambda y, a, b: 0.2 * torch.sin(a @ y) + b, torch.zeros(3, 1, dtype=double), params=(a, b))
lowest = optimize.minimize(
    lambda y, a, b: ((a @ y - b) ** 2).sum() + (y**4).sum(), torch.zeros(3, 1, dtype=double), params=(a, b)
)
low, high = (torch.tensor(x, dtype=double, requires_grad=True) for x in (0.2, 1.5))
area = integrate.quad(lambda x, b: torch.exp(-x * x) * b.sin().sum(), low, high, params=(b,))
times = torch.linspace(0, 1, 5, dtype=double)
path = integrate.solve_ivp(lambda t, y, a: -(a @ y) * (1 + t), times, b, params=(a,))
symmetric = a + a.mT
values, vectors = linalg.symeig(xitorch.LinearOperator.m(symmetric), neig=2, method="exacteig")
solved = linalg.solve(xitorch.LinearOperator.m(a, is_hermitian=False), b)
spline = interpolate.Interp1D(times, path[:, :, 0].mT, method="cspline", bc_type="natural")
between = spline(torch.tensor([0.1, 0.33, 0.9], dtype=double))
outputs = {"root": root, "fixed": fixed, "lowest": lowest, "area": area, "path": path, "values": values}
outputs |= {"projector": vectors @ vectors.mT, "solved": solved, "between": between}
for name in ("root", "fixed", "lowest", "path", "values", "solved", "between"):
    sources = (a, b) if name != "values" else (a,)
    weighted = torch.cos(outputs[name]).sum()
    for number, gradient in enumerate(both_orders(weighted, *sources)):
        outputs[f"{name}'s gradient {number}"] = gradient
for number, gradient in enumerate(both_orders(area, b, low, high)):
    outputs[f"area's gradient {number}"] = gradient
