"""A neural ODE, by backward through the solver and by the adjoint."""

import torch
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)


class Dynamics(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


func = Dynamics()
start = torch.tensor([[2.0, 0.0]], requires_grad=True)
times = torch.linspace(0.0, 1.0, 5)
outputs = {}
for name, solve, method in (
    ("rk4", odeint, "rk4"),
    ("dopri5", odeint, "dopri5"),
    ("adjoint", odeint_adjoint, "dopri5"),
):
    func.zero_grad()
    start.grad = None
    path = solve(func, start, times, method=method)
    path.square().mean().backward()
    outputs |= {f"{name} path": path, f"{name} start": start.grad, f"{name} weight": func.net[0].weight.grad.clone()}
