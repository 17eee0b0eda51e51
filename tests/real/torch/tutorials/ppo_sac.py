"""PPO, A2C with GAE, SAC, DDPG, TRPO-like line search on a toy control problem."""

import os, copy, torch
from torch import nn, distributions as D
import torch.nn.functional as F

torch.manual_seed(0)
STEPS = 10


def env(s, a):
    s2 = torch.clamp(s + 0.1 * a + 0.01 * torch.randn_like(s), -2, 2)
    return s2, -(s2**2).sum(-1)


class AC(nn.Module):
    def __init__(s):
        super().__init__()
        s.pi = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        s.v = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        s.ls = nn.Parameter(torch.zeros(2))
        for m in s.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, 2**0.5)
                nn.init.zeros_(m.bias)

    def dist(s, o):
        return D.Independent(D.Normal(s.pi(o), s.ls.exp()), 1)


ac = AC()
opt = torch.optim.Adam(ac.parameters(), lr=3e-3, eps=1e-5)
L = []
for it in range(STEPS):
    s = torch.randn(4, 2)
    buf = []
    with torch.no_grad():
        for t in range(6):
            d = ac.dist(s)
            a = d.sample()
            s2, r = env(s, a)
            buf.append((s, a, d.log_prob(a), r, ac.v(s).squeeze(-1)))
            s = s2
        last = ac.v(s).squeeze(-1)
        adv, A = [], 0
        for _, _, _, r, v in reversed(buf):
            A = r + 0.9 * last - v + 0.9 * 0.95 * A
            adv.insert(0, A)
            last = v
    S_, A_, LP, _, V = (torch.stack(z).flatten(0, 1) for z in zip(*buf))
    adv = torch.stack(adv).flatten()
    ret = adv + V
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for ep in range(2):
        for idx in torch.randperm(24).split(12):
            d = ac.dist(S_[idx])
            ratio = (d.log_prob(A_[idx]) - LP[idx]).exp()
            pl = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
            vl = F.mse_loss(ac.v(S_[idx]).squeeze(-1), ret[idx])
            l = pl + 0.5 * vl - 0.01 * d.entropy().mean()
            opt.zero_grad()
            l.backward()
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
    L.append((pl.item(), vl.item()))


class Tanh(nn.Module):
    def __init__(s):
        super().__init__()
        s.net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(s, o):
        m, ls = s.net(o).chunk(2, -1)
        d = D.TransformedDistribution(D.Normal(m, ls.clamp(-5, 2).exp()), D.TanhTransform(cache_size=1))
        a = d.rsample()
        return a, d.log_prob(a).sum(-1)


actor = Tanh()
q1, q2 = (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2))
t1, t2 = copy.deepcopy(q1).requires_grad_(False), copy.deepcopy(q2).requires_grad_(False)
la = torch.zeros(1, requires_grad=True)
oa, oq, ol = (
    torch.optim.Adam(actor.parameters(), 3e-3),
    torch.optim.Adam([*q1.parameters(), *q2.parameters()], 3e-3),
    torch.optim.Adam([la], 3e-3),
)
Q = []
s = torch.randn(8, 2)
for i in range(STEPS):
    with torch.no_grad():
        a, _ = actor(s)
        s2, r = env(s, a)
        a2, lp = actor(s2)
        y = r + 0.9 * (torch.min(t1(torch.cat([s2, a2], -1)), t2(torch.cat([s2, a2], -1))).squeeze(-1) - la.exp() * lp)
    sa = torch.cat([s, a], -1)
    lq = F.mse_loss(q1(sa).squeeze(-1), y) + F.huber_loss(q2(sa).squeeze(-1), y)
    oq.zero_grad()
    lq.backward()
    oq.step()
    for p in q1.parameters():
        p.requires_grad = False
    an, lp = actor(s)
    lactor = (la.exp().detach() * lp - q1(torch.cat([s, an], -1)).squeeze(-1)).mean()
    oa.zero_grad()
    lactor.backward()
    oa.step()
    for p in q1.parameters():
        p.requires_grad = True
    ll = -(la * (lp.detach() - 2)).mean()
    ol.zero_grad()
    ll.backward()
    ol.step()
    for t, q in ((t1, q1), (t2, q2)):
        for p, pt in zip(q.parameters(), t.parameters()):
            pt.data.mul_(0.99)
            pt.data.add_(0.01 * p.data)
    s = s2
    Q.append((lq.item(), lactor.item(), la.item()))
outputs = {"L": torch.tensor(L), "Q": torch.tensor(Q)}
