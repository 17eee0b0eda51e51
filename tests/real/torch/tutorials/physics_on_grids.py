"""Physics that writes into grids: particles in cells, Maxwell's equations, a lattice gas, a cloth of constraints."""

import math

import torch

torch.manual_seed(0)
outputs = {}


def particles(cells=16, count=12, dt=2e-3):
    """The material point method: mass and momentum go to a grid by `index_put_`, its walls are written in place."""
    x = torch.rand(count, 2) * 0.3 + 0.35
    start = torch.randn(count, 2, requires_grad=True)
    stiffness = torch.tensor(20.0, requires_grad=True)
    v, affine, volume = start, torch.zeros(count, 2, 2), torch.ones(count)
    for _ in range(12):
        base = (x * cells - 0.5).long()
        offset = x * cells - base.float()
        weights = [0.5 * (1.5 - offset) ** 2, 0.75 - (offset - 1) ** 2, 0.5 * (offset - 0.5) ** 2]
        stress = -dt * 4 * stiffness * (volume - 1) * cells**2
        momentum = stress[:, None, None] * torch.eye(2) + affine
        velocity, mass = torch.zeros(cells, cells, 2), torch.zeros(cells, cells)
        near = []
        for i in range(3):
            for j in range(3):
                node = torch.tensor([i, j])
                away = node.float() - offset
                weight = weights[i][:, 0] * weights[j][:, 1]
                at = tuple((base + node).T)
                near.append((at, weight, away))
                pushed = v + (momentum @ (away / cells)[..., None])[..., 0]
                velocity.index_put_(at, weight[:, None] * pushed, accumulate=True)
                mass.index_put_(at, weight, accumulate=True)
        full = mass > 0
        velocity[full] = velocity[full] / mass[full][:, None]
        velocity[..., 1] -= dt * 9.8
        velocity[:6, :, 0].clamp_(min=0)
        velocity[-6:, :, 0].clamp_(max=0)
        velocity[:, :6, 1].clamp_(min=0)
        v, affine = torch.zeros_like(v), torch.zeros_like(affine)
        for at, weight, away in near:
            v += weight[:, None] * velocity[at]
            affine += 4 * cells * weight[:, None, None] * velocity[at][:, :, None] * away[:, None, :]
        x = x + dt * v
        volume = volume * (1 + dt * affine.diagonal(dim1=1, dim2=2).sum(-1))
    loss = 1e4 * (x - torch.tensor([0.7, 0.5])).square().mean()
    return x, *torch.autograd.grad(loss, (start, stiffness))


def waves(n=24):
    """Maxwell's equations on a staggered grid; the gradient by the material at each point."""
    material = torch.ones(n, n, requires_grad=True)
    electric, along_x, along_y = torch.zeros(n, n), torch.zeros(n, n), torch.zeros(n, n)
    heard = []
    for t in range(30):
        along_x, along_y = along_x.clone(), along_y.clone()
        along_x[:, :-1] -= 0.5 * (electric[:, 1:] - electric[:, :-1])
        along_y[:-1] += 0.5 * (electric[1:] - electric[:-1])
        curl = along_y[1:, 1:] - along_y[:-1, 1:] - along_x[1:, 1:] + along_x[1:, :-1]
        electric = electric.clone()
        electric[1:, 1:] += 0.5 / material[1:, 1:] * curl
        electric[n // 2, n // 2] += math.sin(0.4 * t)
        heard.append(electric[8, 8])
    heard = torch.stack(heard)
    return heard, *torch.autograd.grad(heard.square().sum(), material)


def lattice_gas():
    """The lattice Boltzmann method around an obstacle that reflects; the gradient by the viscosity."""
    ways = torch.tensor([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
    back = [0, 3, 4, 1, 2, 7, 8, 5, 6]
    share = torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)[:, None, None]
    relaxation = torch.tensor(0.8, requires_grad=True)
    obstacle = torch.zeros(10, 10, dtype=torch.bool)
    obstacle[4:6, 4:6] = True
    f = share * (1 + 0.1 * torch.rand(9, 10, 10))
    for _ in range(15):
        density = f.sum(0)
        u = torch.einsum("qd,qxy->dxy", ways.float(), f) / density
        along = torch.einsum("qd,dxy->qxy", ways.float(), u)
        f = f - (f - share * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * u.square().sum(0))) / relaxation
        f = torch.stack([torch.roll(g, tuple(way.tolist()), (0, 1)) for g, way in zip(f, ways, strict=True)])
        f[:, obstacle] = f[back][:, obstacle]
    return u, *torch.autograd.grad(u.square().sum(), relaxation)


def cloth(n=5):
    """Positions corrected along the edges of a grid, the same point by several edges at once."""
    points = torch.cartesian_prod(torch.arange(float(n)), torch.arange(float(n)))
    start = torch.cat([points, torch.zeros(n * n, 1)], 1).requires_grad_()
    stiffness = torch.tensor(0.8, requires_grad=True)
    index = torch.arange(n * n).view(n, n)
    a = torch.cat([index[:, :-1].flatten(), index[:-1].flatten()])
    b = torch.cat([index[:, 1:].flatten(), index[1:].flatten()])
    x, v = start, torch.zeros(n * n, 3)
    for _ in range(10):
        moved = x + 0.05 * v + 0.0025 * torch.tensor([0, 0, -9.8])
        for _ in range(3):
            edge = moved[a] - moved[b]
            length = edge.norm(dim=1, keepdim=True)
            change = 0.125 * stiffness * (length - 1) * edge / length
            moved = moved.index_add(0, a, -change).index_add(0, b, change)
            moved = torch.cat([start[:n], moved[n:]])
        x, v = moved, (moved - x) / 0.05
    return x, *torch.autograd.grad(x[-1].square().sum(), (start, stiffness))


for simulate in (particles, waves, lattice_gas, cloth):
    outputs |= {f"{simulate.__name__}{i}": value for i, value in enumerate(simulate())}
