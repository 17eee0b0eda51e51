"""Mechanics that are learned: a Hamiltonian, a Lagrangian through ``torch.func``, springs, and a Fourier operator."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import grad, hessian, jacrev, vmap


def fit(params, loss_of, lr, steps=5):
    opt = torch.optim.SGD(params, lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)

hamiltonian = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
turn = torch.tensor([[0.0, 1], [-1, 0]])
state = torch.randn(6, 2, requires_grad=True)
flow = torch.stack([state[:, 1], -state[:, 0]], 1).detach()


def hamiltonian_loss():
    slope = torch.autograd.grad(hamiltonian(state).sum(), state, create_graph=True)[0]
    return (slope @ turn.t() - flow).square().mean()


lagrangian = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 1))
q, v = torch.randn(5, 2), torch.randn(5, 2)


def energy(q, v):
    return lagrangian(torch.cat([q, v])).squeeze() + 0.5 * (v**2).sum()


def acceleration(q, v):
    force = grad(energy, 0)(q, v) - jacrev(grad(energy, 1), 0)(q, v) @ v
    return torch.linalg.pinv(hessian(energy, 1)(q, v)) @ force


stiffness = nn.Parameter(torch.tensor(2.0))
points = torch.randn(5, 2)
edges = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]])


def spring_loss():
    x, speed = points.clone(), torch.zeros(5, 2)
    for _ in range(20):
        d = x[edges[:, 1]] - x[edges[:, 0]]
        n = d.norm(dim=1, keepdim=True)
        pull = stiffness * (n - 1) * d / n
        force = torch.zeros_like(x).index_add(0, edges[:, 0], pull).index_add_(0, edges[:, 1], -pull)
        speed = (speed + 0.02 * force) * 0.99
        x = x + 0.02 * speed
    return (x[-1] ** 2).sum()


class SpectralConv2d(nn.Module):
    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) / channels**2)
        self.high = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) / channels**2)

    def forward(self, x):
        m, f = self.modes, torch.fft.rfft2(x)
        out = torch.zeros(*x.shape[:3], x.size(-1) // 2 + 1, dtype=torch.cfloat)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=x.shape[-2:])


lift, spectral, skip, project = nn.Conv2d(3, 4, 1), SpectralConv2d(4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 1, 1)
field = torch.randn(2, 1, 8, 8)
grid = torch.stack(torch.meshgrid(torch.linspace(0, 1, 8), torch.linspace(0, 1, 8), indexing="ij"))


def operator_loss():
    h = F.pad(lift(torch.cat([field, grid[None].repeat(2, 1, 1, 1)], 1)), [0, 2, 0, 2])
    h = F.gelu(spectral(h) + skip(h))[..., :-2, :-2]
    return ((project(h) - field).reshape(2, -1).norm(dim=1) / field.reshape(2, -1).norm(dim=1)).mean()


operator = [p for m in (lift, spectral, skip, project) for p in m.parameters()]
outputs = {
    "hamiltonian": fit([*hamiltonian.parameters()], hamiltonian_loss, 1e-2),
    "lagrangian": fit([*lagrangian.parameters()], lambda: (vmap(acceleration)(q, v) + q).square().mean(), 1e-3),
    "springs": fit([stiffness], spring_loss, 5e-2),
    "operator": fit(operator, operator_loss, 1e-2),
    "hamiltonian_weight": hamiltonian[0].weight,
    "lagrangian_weight": lagrangian[0].weight,
    "stiffness": stiffness,
    "spectral_gradient": spectral.low.grad,
    "lift": lift.weight,
}
