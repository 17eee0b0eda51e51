"""Message passing by index_add_/scatter_reduce, GAT with a segment softmax, PNA aggregators, pooling."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typing import Optional, Tuple


def broadcast(src: Tensor, other: Tensor, dim: int):
    if dim < 0:
        dim = other.dim() + dim
    if src.dim() == 1:
        for _ in range(0, dim):
            src = src.unsqueeze(0)
    for _ in range(src.dim(), other.dim()):
        src = src.unsqueeze(-1)
    return src.expand(other.size())


def scatter_sum(
    src: Tensor, index: Tensor, dim: int = -1, out: Optional[Tensor] = None, dim_size: Optional[int] = None
) -> Tensor:
    index = broadcast(index, src, dim)
    if out is None:
        size = list(src.size())
        if dim_size is not None:
            size[dim] = dim_size
        elif index.numel() == 0:
            size[dim] = 0
        else:
            size[dim] = int(index.max()) + 1
        out = torch.zeros(size, dtype=src.dtype, device=src.device)
        return out.scatter_add_(dim, index, src)
    return out.scatter_add_(dim, index, src)


def scatter_mean(src, index, dim=-1, dim_size=None):
    out = scatter_sum(src, index, dim, None, dim_size)
    dim_size = out.size(dim)
    index_dim = dim if dim >= 0 else dim + src.dim()
    if index.dim() <= index_dim:
        index_dim = index.dim() - 1
    ones = torch.ones(index.size(), dtype=src.dtype)
    count = scatter_sum(ones, index, index_dim, None, dim_size)
    count[count < 1] = 1
    count = broadcast(count, out, dim)
    if out.is_floating_point():
        out.true_divide_(count)
    else:
        out.div_(count, rounding_mode="floor")
    return out


def scatter_softmax(src, index, N):
    idx = broadcast(index, src, 0)
    mx = torch.full((N,) + src.shape[1:], float("-inf")).scatter_reduce(0, idx, src, "amax", include_self=True)
    e = (src - mx.detach()[index]).exp()
    return e / (scatter_sum(e, index, 0, dim_size=N)[index] + 1e-16)


class GATConv(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.h, self.o = heads, o
        self.lin = nn.Linear(i, o * heads, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, o))
        self.att_dst = nn.Parameter(torch.empty(1, heads, o))
        self.bias = nn.Parameter(torch.zeros(heads * o))
        for p in (self.lin.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(p, gain=nn.init.calculate_gain("leaky_relu", 0.2))

    def forward(self, x, edge_index):
        src, dst = edge_index
        N = x.size(0)
        x = self.lin(x).view(-1, self.h, self.o)
        a = (x * self.att_src).sum(-1)[src] + (x * self.att_dst).sum(-1)[dst]
        a = scatter_softmax(F.leaky_relu(a, 0.2), dst, N)
        a = F.dropout(a, 0.0, self.training)
        return scatter_sum(x[src] * a.unsqueeze(-1), dst, 0, dim_size=N).flatten(1) + self.bias


class PNA(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(5 * d, d)

    def forward(self, x, edge_index):
        src, dst = edge_index
        m = x.index_select(0, src)
        N = x.size(0)
        idx = dst.unsqueeze(-1).expand_as(m)
        z = x.new_zeros(N, x.size(1))
        outs = [z.scatter_reduce(0, idx, m, reduce=r, include_self=False) for r in ("sum", "mean", "amax", "amin")]
        mean2 = scatter_mean(m * m, dst, 0, N)
        outs.append((mean2 - outs[1] ** 2).clamp(min=1e-5).sqrt())
        deg = torch.zeros(N).index_add_(0, dst, torch.ones(dst.numel()))
        return self.lin(torch.cat(outs, -1)) * torch.log(deg + 1).unsqueeze(-1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.p = GATConv(5, 4, 2), GATConv(8, 8, 1), PNA(8)
        self.bn = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 3)

    def forward(self, x, ei, batch):
        x = F.elu(self.c1(x, ei))
        x = self.bn(F.elu(self.c2(x, ei)))
        x = x + self.p(x, ei)
        return self.out(scatter_mean(x, batch, 0))


def gcn_norm(edge_index, N):
    row, col = edge_index
    w = torch.ones(row.numel())
    deg = torch.zeros(N).scatter_add_(0, col, w)
    dis = deg.pow_(-0.5)
    dis.masked_fill_(dis == float("inf"), 0)
    return dis[row] * w * dis[col]


torch.manual_seed(0)
N, E = 24, 70
ei = torch.randint(0, N, (2, E))
ei = torch.unique(ei, dim=1)
ei = ei[:, ei[0] != ei[1]]
ei = torch.cat([ei, torch.arange(N).repeat(2, 1)], 1)
x, batch, y = torch.randn(N, 5), torch.arange(N) // 6, torch.tensor([0, 1, 2, 1])
net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=5e-4)
losses = []
for epoch in range(12):
    net.train()
    opt.zero_grad()
    loss = F.nll_loss(F.log_softmax(net(x, ei, batch), dim=-1), y)
    loss.backward()
    opt.step()
    losses.append(float(loss))
net.eval()
xx = x.clone().requires_grad_()
net(xx, ei, batch).logsumexp(-1).sum().backward()
outputs = {"losses": losses, "norm": gcn_norm(ei, N), "xg": xx.grad, "rv": net.bn.running_var, "ei": ei}
