"""The graph networks of pytorch/examples: convolution and attention."""

import math, torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(42)


class GraphConv(nn.Module):
    def __init__(self, i, o, bias=False):
        super().__init__()
        self.kernel = nn.Parameter(torch.Tensor(i, o))
        nn.init.xavier_normal_(self.kernel)
        self.bias = nn.Parameter(torch.Tensor(o)) if bias else None
        if bias:
            nn.init.zeros_(self.bias)

    def forward(self, x, adj):
        s = torch.mm(x, self.kernel)
        o = torch.mm(adj, s)
        return o + self.bias if self.bias is not None else o


class GAT(nn.Module):
    def __init__(self, i, o, heads, concat=False, slope=0.2):
        super().__init__()
        self.n, self.h, self.concat = heads, o if not concat else o // heads, concat
        self.W = nn.Parameter(torch.empty(size=(i, self.h * heads)))
        self.a = nn.Parameter(torch.empty(size=(heads, 2 * self.h, 1)))
        self.leakyrelu = nn.LeakyReLU(slope)
        self.softmax = nn.Softmax(dim=1)
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, x, adj):
        N = x.shape[0]
        ht = torch.mm(x, self.W).view(N, self.n, self.h).permute(1, 0, 2)
        src = torch.matmul(ht, self.a[:, : self.h, :])
        dst = torch.matmul(ht, self.a[:, self.h :, :])
        e = self.leakyrelu(src + dst.mT)
        mask = -9e16 * torch.ones_like(e)
        att = torch.where(adj > 0, e, mask)
        att = F.softmax(att, dim=-1)
        hp = torch.matmul(att, ht)
        return hp.permute(1, 0, 2).contiguous().view(N, self.h * self.n) if self.concat else hp.mean(dim=0)


N = 10
idx = torch.tensor([[i, (i * 3 + 1) % N] for i in range(N)])
adj = torch.eye(N)
adj[idx[:, 0], idx[:, 1]] = 1
adj = ((adj + adj.t()) > 0).float()
d = adj.sum(1).pow(-0.5)
norm = d[:, None] * adj * d[None]
x = torch.randn(N, 6)
y = torch.arange(N) % 3
tr = torch.zeros(N, dtype=torch.bool)
tr[:7] = True
losses = []
for net in (0, 1):
    a, b = (GraphConv(6, 8), GraphConv(8, 3, True)) if net == 0 else (GAT(6, 8, 2, True), GAT(8, 3, 1))
    opt = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=0.01, weight_decay=5e-4)
    for _ in range(20):
        opt.zero_grad()
        out = F.log_softmax(b(F.elu(a(x, norm if net == 0 else adj)), norm if net == 0 else adj), dim=1)
        loss = F.nll_loss(out[tr], y[tr])
        loss.backward()
        opt.step()
        losses.append(loss.item())
outputs = {"losses": losses, "acc": (out.argmax(1) == y).float().mean()}
