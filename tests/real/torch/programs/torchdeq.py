"""Layers that are fixed points, differentiated implicitly by several solvers."""

import torch
from torch import nn
from torchdeq import get_deq

SOLVERS = {
    "anderson": {"f_solver": "anderson", "b_solver": "anderson", "ift": True},
    "broyden": {"f_solver": "broyden", "grad": 3},
    "hook": {"f_solver": "fixed_point_iter", "b_solver": "fixed_point_iter", "hook_ift": True},
}
outputs = {}
torch.manual_seed(0)
recurrent, inject, x = nn.Linear(6, 6), nn.Linear(6, 6), torch.randn(4, 6)
nn.init.normal_(recurrent.weight, 0, 0.1)
for name, options in SOLVERS.items():
    deq = get_deq(f_max_iter=30, b_max_iter=30, f_tol=1e-6, b_tol=1e-6, **options)
    injected = inject(x)
    fixed, _ = deq(lambda z, injected=injected: torch.tanh(recurrent(z) + injected), torch.zeros_like(x))
    parameters = [*recurrent.parameters(), *inject.parameters()]
    gradients = torch.autograd.grad(fixed[-1].square().mean(), parameters)
    outputs |= {f"{name} {k}": gradient for k, gradient in enumerate(gradients)}
    outputs[name] = fixed[-1]
