"""Neural ODE with the adjoint as a custom Function (rtol solver by hand), latent SDE by Euler-Maruyama, Hamiltonian and Lagrangian nets."""

import torch, torch.nn as nn
from torch.func import jacrev, hessian, vmap, grad, functional_call


def rk4(f, t, dt, y):
    k1 = f(t, y)
    k2 = f(t + dt / 2, y + dt * k1 / 2)
    k3 = f(t + dt / 2, y + dt * k2 / 2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class ODEAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y0, t, flat_params, func):
        with torch.no_grad():
            ys = [y0]
            for i in range(len(t) - 1):
                ys.append(rk4(func, t[i], t[i + 1] - t[i], ys[-1]))
            ys = torch.stack(ys)
        ctx.func = func
        ctx.save_for_backward(t, flat_params, ys.clone())
        return ys

    @staticmethod
    def backward(ctx, dLdz):
        t, flat, ys = ctx.saved_tensors
        func = ctx.func
        params = tuple(func.parameters())
        n = ys[0].numel()

        def aug(tt, s):
            y, a = s[:n].view_as(ys[0]), s[n : 2 * n].view_as(ys[0])
            with torch.enable_grad():
                y = y.detach().requires_grad_(True)
                tt = tt.detach().requires_grad_(True)
                out = func(tt, y)
                vjps = torch.autograd.grad(out, (y, tt) + params, -a, allow_unused=True)
            vy, vt, *vp = [torch.zeros_like(p) if g is None else g for g, p in zip(vjps, (y, tt) + params)]
            return torch.cat([out.detach().flatten(), vy.flatten(), torch.cat([v.flatten() for v in vp])])

        a, gp = dLdz[-1].clone(), torch.zeros_like(flat)
        for i in range(len(t) - 1, 0, -1):
            s = torch.cat([ys[i].flatten(), a.flatten(), gp])
            s = rk4(aug, t[i], t[i - 1] - t[i], s)
            a, gp = s[n : 2 * n].view_as(a), s[2 * n :]
            a = a + dLdz[i - 1]
        return a, None, gp, None


class Func(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.3)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3) + 0.0 * t


def flatten(ps):
    return torch.cat([p.flatten() for p in ps])


torch.manual_seed(0)
t = torch.linspace(0.0, 1.0, 9)
A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
with torch.no_grad():
    true = [torch.tensor([[2.0, 0.0]])]
    for i in range(8):
        true.append(rk4(lambda t, y: (y**3) @ A, t[i], torch.tensor(0.02), true[-1]))
    true = torch.stack(true)
f = Func()
opt = torch.optim.RMSprop(f.parameters(), lr=1e-3)
log = []
for it in range(6):
    opt.zero_grad()
    y0 = true[0].clone().requires_grad_()
    pred = ODEAdjoint.apply(y0, t * 0.16, flatten(f.parameters()), f)
    loss = torch.mean(torch.abs(pred - true))
    loss.backward()
    opt.step()
    log.append([loss.item(), y0.grad.abs().sum().item()])

# SDE
drift, diff = (
    nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1)),
    nn.Sequential(nn.Linear(2, 8), nn.Sigmoid(), nn.Linear(8, 1)),
)
opt = torch.optim.Adam([*drift.parameters(), *diff.parameters()], lr=1e-2)
for it in range(6):
    x = torch.zeros(16, 1)
    kl = 0.0
    for i in range(10):
        tt = torch.full_like(x, i / 10)
        s = torch.cat([x, tt], 1)
        mu, sig = drift(s), diff(s).exp()
        kl = kl + 0.5 * (((mu + x) / sig) ** 2).mean() * 0.1
        x = x + mu * 0.1 + sig * torch.randn_like(x) * 0.1**0.5
    loss = -torch.distributions.Normal(1.0, 0.2).log_prob(x).mean() + kl
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.append([loss.item(), kl.item()])

# Lagrangian
L = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 1))
params = dict(L.named_parameters())


def accel(p, q, qt):
    lag = lambda q, qt: functional_call(L, p, (torch.cat([q, qt]),)).squeeze() + 0.5 * (qt**2).sum()
    H = hessian(lag, 1)(q, qt)
    return torch.linalg.pinv(H) @ (grad(lag, 0)(q, qt) - jacrev(jacrev(lag, 1), 0)(q, qt) @ qt)


q, qt = torch.randn(6, 2), torch.randn(6, 2)
loss = (vmap(accel, (None, 0, 0))(params, q, qt) + q).pow(2).mean()
g = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
outputs = {"log": log, "lnn": loss, "g": g[0], "gb": g[1]}
