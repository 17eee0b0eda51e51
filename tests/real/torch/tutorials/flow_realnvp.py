"""RealNVP + ActNorm + invertible 1x1, after karpathy/pytorch-normalizing-flows."""

import itertools
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import MultivariateNormal, Uniform, TransformedDistribution, SigmoidTransform, AffineTransform


class MLP(nn.Module):
    def __init__(self, nin, nout, nh):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(nin, nh), nn.LeakyReLU(0.2), nn.Linear(nh, nh), nn.LeakyReLU(0.2), nn.Linear(nh, nout)
        )

    def forward(self, x):
        return self.net(x)


class AffineConstantFlow(nn.Module):
    def __init__(self, dim, scale=True, shift=True):
        super().__init__()
        self.s = nn.Parameter(torch.randn(1, dim, requires_grad=True)) if scale else None
        self.t = nn.Parameter(torch.randn(1, dim, requires_grad=True)) if shift else None

    def forward(self, x):
        s = self.s if self.s is not None else x.new_zeros(x.size())
        t = self.t if self.t is not None else x.new_zeros(x.size())
        z = x * torch.exp(s) + t
        return z, torch.sum(s, dim=1)

    def backward(self, z):
        x = (z - self.t) * torch.exp(-self.s)
        return x, torch.sum(-self.s, dim=1)


class ActNorm(AffineConstantFlow):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.data_dep_init_done = False

    def forward(self, x):
        if not self.data_dep_init_done:
            self.s.data = (-torch.log(x.std(dim=0, keepdim=True))).detach()
            self.t.data = (-(x * torch.exp(self.s)).mean(dim=0, keepdim=True)).detach()
            self.data_dep_init_done = True
        return super().forward(x)


class AffineHalfFlow(nn.Module):
    def __init__(self, dim, parity, nh=16):
        super().__init__()
        self.parity = parity
        self.s_cond, self.t_cond = MLP(dim // 2, dim // 2, nh), MLP(dim // 2, dim // 2, nh)

    def forward(self, x):
        x0, x1 = x[:, ::2], x[:, 1::2]
        if self.parity:
            x0, x1 = x1, x0
        s, t = self.s_cond(x0), self.t_cond(x0)
        z0, z1 = x0, torch.exp(s) * x1 + t
        if self.parity:
            z0, z1 = z1, z0
        return torch.cat([z0, z1], dim=1), torch.sum(s, dim=1)

    def backward(self, z):
        z0, z1 = z[:, ::2], z[:, 1::2]
        if self.parity:
            z0, z1 = z1, z0
        s, t = self.s_cond(z0), self.t_cond(z0)
        x0, x1 = z0, (z1 - t) * torch.exp(-s)
        if self.parity:
            x0, x1 = x1, x0
        return torch.cat([x0, x1], dim=1), torch.sum(-s, dim=1)


class Invertible1x1Conv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        Q = torch.nn.init.orthogonal_(torch.empty(dim, dim))
        P, L, U = torch.lu_unpack(*Q.lu()) if hasattr(Q, "lu") else torch.linalg.lu(Q)
        self.P = P
        self.L = nn.Parameter(L)
        self.S = nn.Parameter(U.diag())
        self.U = nn.Parameter(torch.triu(U, diagonal=1))

    def _assemble_W(self):
        L = torch.tril(self.L, diagonal=-1) + torch.diag(torch.ones(self.dim))
        U = torch.triu(self.U, diagonal=1)
        return self.P @ L @ (U + torch.diag(self.S))

    def forward(self, x):
        return x @ self._assemble_W(), torch.sum(torch.log(torch.abs(self.S)))

    def backward(self, z):
        return z @ torch.inverse(self._assemble_W()), -torch.sum(torch.log(torch.abs(self.S)))


class Model(nn.Module):
    def __init__(self, prior, flows):
        super().__init__()
        self.prior, self.flows = prior, nn.ModuleList(flows)

    def forward(self, x):
        log_det = torch.zeros(x.shape[0])
        for flow in self.flows:
            x, ld = flow.forward(x)
            log_det += ld
        return x, self.prior.log_prob(x), log_det

    def backward(self, z):
        log_det = torch.zeros(z.shape[0])
        for flow in self.flows[::-1]:
            z, ld = flow.backward(z)
            log_det += ld
        return z, log_det


torch.manual_seed(0)
prior = MultivariateNormal(torch.zeros(2), torch.eye(2))
logistic = TransformedDistribution(
    Uniform(torch.zeros(2), torch.ones(2)),
    [SigmoidTransform().inv, AffineTransform(loc=torch.zeros(2), scale=torch.ones(2))],
)
flows = list(
    itertools.chain(
        *zip(
            [ActNorm(dim=2) for _ in range(3)],
            [Invertible1x1Conv(2) for _ in range(3)],
            [AffineHalfFlow(2, i % 2) for i in range(3)],
        )
    )
)
model = Model(prior, flows)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
losses = []
rng = np.random.RandomState(1)
for k in range(12):
    th = rng.rand(64) * np.pi
    x = torch.from_numpy(
        np.stack([np.cos(th), np.sin(th)], 1).astype(np.float32) + 0.1 * rng.randn(64, 2).astype(np.float32)
    )
    zs, prior_logprob, log_det = model(x)
    logprob = prior_logprob + log_det
    loss = -torch.sum(logprob)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
back, _ = model.backward(zs)
outputs = {
    "losses": losses,
    "round": (back - x).abs().max() < 1e-3,
    "S": flows[1].S,
    "lp": logistic.log_prob(x.detach()),
    "s": flows[0].s.grad,
}
