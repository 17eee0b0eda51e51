"""Implicit layers: DEQ, OptNet-like QP, Sinkhorn, argmin by implicit differentiation, adjoints, custom Functions of all styles."""

import os, torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
STEPS = 10


def anderson(f, x0, m=5, lam=1e-4, max_iter=25, tol=1e-4, beta=1.0):
    bsz, d = x0.shape
    X = torch.zeros(bsz, m, d, dtype=x0.dtype)
    Fm = torch.zeros(bsz, m, d, dtype=x0.dtype)
    X[:, 0], Fm[:, 0] = x0, f(x0)
    X[:, 1], Fm[:, 1] = Fm[:, 0], f(Fm[:, 0])
    H = torch.zeros(bsz, m + 1, m + 1, dtype=x0.dtype)
    H[:, 0, 1:] = H[:, 1:, 0] = 1
    y = torch.zeros(bsz, m + 1, 1, dtype=x0.dtype)
    y[:, 0] = 1
    for k in range(2, max_iter):
        n = min(k, m)
        G = Fm[:, :n] - X[:, :n]
        H[:, 1 : n + 1, 1 : n + 1] = torch.bmm(G, G.transpose(1, 2)) + lam * torch.eye(n, dtype=x0.dtype)[None]
        alpha = torch.linalg.solve(H[:, : n + 1, : n + 1], y[:, : n + 1])[:, 1 : n + 1, 0]
        X[:, k % m] = beta * (alpha[:, None] @ Fm[:, :n])[:, 0] + (1 - beta) * (alpha[:, None] @ X[:, :n])[:, 0]
        Fm[:, k % m] = f(X[:, k % m])
        if (Fm[:, k % m] - X[:, k % m]).norm().item() / (1e-5 + Fm[:, k % m].norm().item()) < tol:
            break
    return X[:, k % m]


class DEQ(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.W = nn.Linear(d, d)
        self.U = nn.Linear(d, d)
        nn.init.normal_(self.W.weight, std=0.1)

    def f(self, z, x):
        return torch.tanh(self.W(z) + self.U(x))

    def forward(self, x):
        with torch.no_grad():
            z = anderson(lambda z: self.f(z, x), torch.zeros_like(x))
        z = self.f(z, x)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def bh(grad):
            return anderson(lambda y: torch.autograd.grad(f0, z0, y, retain_graph=True)[0] + grad, grad)

        if z.requires_grad:
            z.register_hook(bh)
        return z


deq = DEQ(6)
opt = torch.optim.Adam(deq.parameters(), lr=1e-2)
x, y = torch.randn(8, 6), torch.randn(8, 6).tanh()
ls = []
for i in range(STEPS):
    opt.zero_grad()
    l = F.mse_loss(deq(x), y)
    l.backward()
    opt.step()
    ls.append(l.item())


class Sqrt(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        y = torch.ones_like(a)
        for _ in range(30):
            y = 0.5 * (y + a / y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (2 * y)


a = torch.tensor([1.0, 4.0, 9.0], dtype=torch.double, requires_grad=True)
r = Sqrt.apply(a)
(ga,) = torch.autograd.grad(r.sum(), a, create_graph=True)
(gga,) = torch.autograd.grad(ga.sum(), a)
check = torch.autograd.gradcheck(Sqrt.apply, a), torch.autograd.gradgradcheck(Sqrt.apply, a)


class QP(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(Q, p, A, b):
        n, m = Q.shape[-1], A.shape[-2]
        Km = torch.cat([torch.cat([Q, A.mT], -1), torch.cat([A, torch.zeros(m, m, dtype=Q.dtype)], -1)], -2)
        s = torch.linalg.solve(Km, torch.cat([-p, b]))
        return s[:n], s[n:], Km

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gx, gl, gk):
        xs, lam, Km = ctx.saved_tensors
        gx = torch.zeros_like(xs) if gx is None else gx
        gl = torch.zeros_like(lam) if gl is None else gl
        d = -torch.linalg.solve(Km, torch.cat([gx, gl]))
        dx, dl = d[: len(xs)], d[len(xs) :]
        return 0.5 * (torch.outer(dx, xs) + torch.outer(xs, dx)), dx, torch.outer(dl, xs) + torch.outer(lam, dx), -dl


Q = torch.eye(4, dtype=torch.double).requires_grad_()
p = torch.randn(4, dtype=torch.double, requires_grad=True)
A = torch.randn(2, 4, dtype=torch.double, requires_grad=True)
b = torch.randn(2, dtype=torch.double, requires_grad=True)
sol = QP.apply(Q, p, A, b)
gq = torch.autograd.grad(sol[0].square().sum(), (Q, p, A, b))
vm = torch.func.vmap(lambda p: QP.apply(Q, p, A, b)[0])(torch.randn(3, 4, dtype=torch.double))


def sinkhorn(C, a, b, eps=0.1, n=50):
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    for _ in range(n):
        f = eps * (a.log() - torch.logsumexp((g[None] - C) / eps, 1))
        g = eps * (b.log() - torch.logsumexp((f[:, None] - C) / eps, 0))
    return torch.exp((f[:, None] + g[None] - C) / eps)


u = torch.randn(5, 2, requires_grad=True)
w = torch.randn(6, 2, requires_grad=True)
C = torch.cdist(u, w) ** 2
Pm = sinkhorn(C, torch.full((5,), 0.2), torch.full((6,), 1 / 6))
ot = (Pm * C).sum()
got = torch.autograd.grad(ot, (u, w))


class ODE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y0, t, fn, *params):
        with torch.no_grad():
            y = y0
            for i in range(len(t) - 1):
                y = y + (t[i + 1] - t[i]) * fn(t[i], y)
        ctx.fn = fn
        ctx.params = params
        ctx.save_for_backward(y, t)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        y, t = ctx.saved_tensors
        gp = [torch.zeros_like(q) for q in ctx.params]
        for i in reversed(range(len(t) - 1)):
            with torch.enable_grad():
                yy = y.detach().requires_grad_()
                fy = ctx.fn(t[i], yy)
                gg = torch.autograd.grad(fy, (yy, *ctx.params), g, allow_unused=True)
            h = t[i + 1] - t[i]
            y = y - h * fy.detach()
            g = g + h * gg[0]
            for k, q in enumerate(gg[1:]):
                gp[k] = gp[k] + h * q
        return g, None, None, *gp


field = nn.Linear(3, 3)
y0 = torch.randn(2, 3, requires_grad=True)
yT = ODE.apply(y0, torch.linspace(0, 1, 10), lambda t, y: torch.tanh(field(y)), *field.parameters())
yT.sum().backward()
try:
    torch.autograd.grad(
        torch.autograd.grad(
            ODE.apply(y0, torch.linspace(0, 1, 10), lambda t, y: field(y), *field.parameters()).sum(),
            y0,
            create_graph=True,
        )[0].sum(),
        y0,
    )
except Exception as e:
    err = f"{type(e).__name__}: {e}"
outputs = {"ls": ls, "got": got[0], "gq": gq[2]}
