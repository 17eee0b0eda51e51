"""Double backward with custom functions, saved tensor hooks, gradient penalty."""

import torch, torch.nn as nn, os, tempfile, uuid

torch.manual_seed(0)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


class Sinh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        e, n = torch.exp(x), torch.exp(-x)
        ctx.save_for_backward(e, n)
        return (e - n) / 2, e, n

    @staticmethod
    def backward(ctx, g, ge, gn):
        e, n = ctx.saved_tensors
        r = g * (e + n) / 2
        r += ge * e
        r -= gn * n
        return r


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        return CubeBackward.apply(g, ctx.saved_tensors[0])


class CubeBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(x, g)
        return g * 3 * x**2

    @staticmethod
    def backward(ctx, gg):
        x, g = ctx.saved_tensors
        return gg * 3 * x**2, gg * g * 6 * x


x = torch.rand(3, 3, requires_grad=True, dtype=torch.double)
checks = [
    torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(f, x)
    for f in (Square.apply, lambda x: Sinh.apply(x)[0], Cube.apply)
]


class SelfDeletingTempFile:
    def __init__(self):
        self.name = os.path.join(tempfile.mkdtemp(), str(uuid.uuid4()))

    def __del__(self):
        os.remove(self.name)


def pack(t):
    f = SelfDeletingTempFile()
    torch.save(t, f.name)
    return f


def unpack(f):
    return torch.load(f.name)


with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = (x.exp() * x.sin()).sum()
(g1,) = torch.autograd.grad(y, x, create_graph=True)
critic = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt = torch.optim.RMSprop(critic.parameters(), lr=1e-2)
pen = []
for _ in range(10):
    real, fake = torch.randn(4, 3), torch.randn(4, 3)
    a = torch.rand(4, 1)
    inter = (a * real + (1 - a) * fake).requires_grad_(True)
    out = critic(inter)
    g = torch.autograd.grad(out, inter, grad_outputs=torch.ones_like(out), create_graph=True, retain_graph=True)[0]
    gp = ((g.norm(2, dim=1) - 1) ** 2).mean()
    opt.zero_grad()
    (gp + out.mean()).backward()
    opt.step()
    pen.append(gp.item())
outputs = {"checks": checks, "g1": g1, "pen": pen}
