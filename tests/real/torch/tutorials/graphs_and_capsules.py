"""Message passing with scatter and index_add: GCN, GIN, GAT, EGNN, DimeNet-like angles, pooling, link prediction, TransE, node2vec, capsules, hypergraph."""

import os, torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
STEPS = 10
N = 12
ei = torch.randint(0, N, (2, 40))
x = torch.randn(N, 4)
y = torch.randint(3, (N,))
batch = torch.arange(N) // 4


def scat(src, idx, n, reduce):
    i = idx.view(-1, *[1] * (src.dim() - 1)).expand_as(src)
    return src.new_zeros(n, *src.shape[1:]).scatter_reduce(0, i, src, reduce, include_self=False)


def softmax(s, idx, n):
    m = scat(s, idx, n, "amax")[idx]
    e = (s - m.detach()).exp()
    return e / (torch.zeros(n, s.shape[1]).index_add_(0, idx, e)[idx] + 1e-16)


class GAT(nn.Module):
    def __init__(s, i, o, h):
        super().__init__()
        s.l = nn.Linear(i, o * h, bias=False)
        s.a = nn.Parameter(torch.empty(1, h, o))
        s.b = nn.Parameter(torch.empty(1, h, o))
        nn.init.xavier_uniform_(s.a)
        nn.init.xavier_uniform_(s.b)
        s.h, s.o = h, o

    def forward(s, x, ei):
        z = s.l(x).view(-1, s.h, s.o)
        al = F.leaky_relu((z * s.a).sum(-1)[ei[0]] + (z * s.b).sum(-1)[ei[1]], 0.2)
        al = softmax(al, ei[1], len(x))
        return torch.zeros_like(z).index_add(0, ei[1], z[ei[0]] * al[..., None]).flatten(1)


class GIN(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.eps = nn.Parameter(torch.zeros(1))
        s.mlp = nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, d))

    def forward(s, x, ei):
        return s.mlp(
            (1 + s.eps) * x + torch.zeros_like(x).scatter_add(0, ei[1][:, None].expand(-1, x.shape[1]), x[ei[0]])
        )


class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.g, s.i, s.o = GAT(4, 4, 2), GIN(8), nn.Linear(32, 3)

    def forward(s, x, ei):
        h = F.elu(s.g(x, ei))
        h = s.i(h, ei)
        e = h[ei[0]]
        return s.o(torch.cat([scat(e, ei[1], N, r) for r in ("mean", "sum", "amax", "amin")], 1))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
L = []
for i in range(STEPS):
    opt.zero_grad()
    l = F.cross_entropy(net(x, ei), y)
    l.backward()
    opt.step()
    L.append(l.item())
pr = torch.rand(6, requires_grad=True)
sp = torch.zeros(3).scatter_reduce(0, torch.tensor([0, 1, 1, 2, 2, 2]), pr, "prod", include_self=False)
gp = torch.autograd.grad(sp.sum(), pr)
xyz = torch.randn(N, 3, requires_grad=True)
phi = nn.Sequential(nn.Linear(9, 8), nn.SiLU(), nn.Linear(8, 1))
d = xyz[ei[0]] - xyz[ei[1]]
r2 = (d**2).sum(-1, keepdim=True)
mm = phi(torch.cat([x[ei[0]], x[ei[1]], r2], -1))
new = xyz + torch.zeros_like(xyz).index_add(0, ei[1], d / (r2.sqrt() + 1) * mm.tanh())
en = new.pow(2).sum()
force = -torch.autograd.grad(en, xyz, create_graph=True)[0]
(force**2).sum().backward()
ang = torch.atan2(torch.cross(d, d.roll(1, 0), dim=-1).norm(dim=-1), (d * d.roll(1, 0)).sum(-1))
deg = torch.zeros(N, dtype=torch.long).scatter_add_(0, ei[1], torch.ones(40, dtype=torch.long))
bc = torch.bincount(ei[1], minlength=N)
ent = nn.Embedding(10, 6, max_norm=1.0)
rel = nn.Embedding(3, 6)
eb = nn.EmbeddingBag(10, 4, mode="mean", padding_idx=0)
to = torch.optim.SGD([*ent.parameters(), *rel.parameters(), *eb.parameters()], lr=0.1)
T = []
for i in range(STEPS):
    h, t, n_ = torch.randint(10, (3, 8))
    r = torch.randint(3, (8,))
    to.zero_grad()
    l = (
        F.margin_ranking_loss(
            (ent(h) + rel(r) - ent(t)).norm(p=1, dim=1),
            (ent(h) + rel(r) - ent(n_)).norm(p=1, dim=1),
            -torch.ones(8),
            margin=1.0,
        )
        + eb(torch.cat([h, t]), torch.tensor([0, 3, 3, 9])).square().sum() * 0.1
    )
    l.backward()
    to.step()
    T.append(l.item())


def squash(v):
    n = (v**2).sum(-1, keepdim=True)
    return n / (1 + n) * v / torch.sqrt(n + 1e-8)


W = torch.randn(3, 6, 5, 4, requires_grad=True)
u = torch.randn(2, 6, 4)
uh = torch.einsum("kndi,bni->bknd", W, u)
b = torch.zeros(2, 3, 6)
for i in range(3):
    c = b.softmax(1)
    s = (c[..., None] * uh).sum(2)
    v = squash(s)
    b = b + (uh * v[:, :, None]).sum(-1)
cl = v.norm(dim=-1)
ml = (
    (
        F.one_hot(torch.tensor([0, 2]), 3) * F.relu(0.9 - cl) ** 2
        + 0.5 * (1 - F.one_hot(torch.tensor([0, 2]), 3)) * F.relu(cl - 0.1) ** 2
    )
    .sum(1)
    .mean()
)
(gW,) = torch.autograd.grad(ml, W)
tk = torch.topk(x.sum(1), 5)
un = torch.unique(ei[0], return_inverse=True, return_counts=True)
lex = torch.argsort(ei[0] * N + ei[1], stable=True)
A = torch.zeros(N, N).index_put((ei[0], ei[1]), torch.ones(40), accumulate=True)
lap = torch.diag(A.sum(1)) - A
ev = torch.linalg.eigvalsh(lap + lap.T)
S_ = F.softmax(torch.randn(N, 3, requires_grad=True), -1)
mc = -torch.trace(S_.T @ A @ S_) / torch.trace(S_.T @ torch.diag(A.sum(1)) @ S_)
outputs = {"L": L, "T": T, "force": force, "gW": gW}
