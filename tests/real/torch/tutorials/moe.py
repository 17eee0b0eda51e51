"""Sparsely gated mixture of experts: noisy top-k gate, SparseDispatcher (davidmrau) and switch routing with capacity."""

import torch
import torch.nn as nn
from torch.distributions.normal import Normal


class SparseDispatcher(object):
    def __init__(self, num_experts, gates):
        self._gates = gates
        self._num_experts = num_experts
        sorted_experts, index_sorted_experts = torch.nonzero(gates).sort(0)
        _, self._expert_index = sorted_experts.split(1, dim=1)
        self._batch_index = torch.nonzero(gates)[index_sorted_experts[:, 1], 0]
        self._part_sizes = (gates > 0).sum(0).tolist()
        gates_exp = gates[self._batch_index.flatten()]
        self._nonzero_gates = torch.gather(gates_exp, 1, self._expert_index)

    def dispatch(self, inp):
        inp_exp = inp[self._batch_index].squeeze(1)
        return torch.split(inp_exp, self._part_sizes, dim=0)

    def combine(self, expert_out, multiply_by_gates=True):
        stitched = torch.cat(expert_out, 0)
        if multiply_by_gates:
            stitched = stitched.mul(self._nonzero_gates)
        zeros = torch.zeros(self._gates.size(0), expert_out[-1].size(1), requires_grad=True)
        return zeros.index_add(0, self._batch_index, stitched.float())

    def expert_to_gates(self):
        return torch.split(self._nonzero_gates, self._part_sizes, dim=0)


class MoE(nn.Module):
    def __init__(self, i, o, n, h, noisy_gating=True, k=2):
        super().__init__()
        self.noisy_gating, self.num_experts, self.k = noisy_gating, n, k
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, o), nn.Softmax(1)) for _ in range(n)]
        )
        self.w_gate = nn.Parameter(torch.randn(i, n) * 0.1, requires_grad=True)
        self.w_noise = nn.Parameter(torch.zeros(i, n), requires_grad=True)
        self.softplus, self.softmax = nn.Softplus(), nn.Softmax(1)
        self.register_buffer("mean", torch.tensor([0.0]))
        self.register_buffer("std", torch.tensor([1.0]))

    def cv_squared(self, x):
        eps = 1e-10
        if x.shape[0] == 1:
            return torch.tensor([0], device=x.device, dtype=x.dtype)
        return x.float().var() / (x.float().mean() ** 2 + eps)

    def _prob_in_top_k(self, clean, noisy, std, top):
        batch, m = clean.size(0), top.size(1)
        flat = top.flatten()
        pos_in = torch.arange(batch) * m + self.k
        thr_in = torch.unsqueeze(torch.gather(flat, 0, pos_in), 1)
        is_in = torch.gt(noisy, thr_in)
        thr_out = torch.unsqueeze(torch.gather(flat, 0, pos_in - 1), 1)
        normal = Normal(self.mean, self.std)
        return torch.where(is_in, normal.cdf((clean - thr_in) / std), normal.cdf((clean - thr_out) / std))

    def forward(self, x, loss_coef=1e-2):
        clean = x @ self.w_gate
        if self.noisy_gating and self.training:
            raw = x @ self.w_noise
            std = self.softplus(raw) + 1e-2
            noisy = clean + (torch.randn_like(clean) * std)
            logits = noisy
        else:
            logits = clean
        logits = self.softmax(logits)
        top_l, top_i = logits.topk(min(self.k + 1, self.num_experts), dim=1)
        tk, ti = top_l[:, : self.k], top_i[:, : self.k]
        tg = tk / (tk.sum(1, keepdim=True) + 1e-6)
        zeros = torch.zeros_like(logits, requires_grad=True)
        gates = zeros.scatter(1, ti, tg)
        if self.noisy_gating and self.k < self.num_experts and self.training:
            load = (self._prob_in_top_k(clean, noisy, std, top_l)).sum(0)
        else:
            load = (gates > 0).sum(0)
        loss = (self.cv_squared(gates.sum(0)) + self.cv_squared(load)) * loss_coef
        d = SparseDispatcher(self.num_experts, gates)
        inp = d.dispatch(x)
        out = [self.experts[i](inp[i]) for i in range(self.num_experts)]
        return d.combine(out), loss


class Switch(nn.Module):
    def __init__(self, d, n, cap=1.0):
        super().__init__()
        self.n, self.cap = n, cap
        self.switch, self.experts = nn.Linear(d, n), nn.ModuleList(nn.Linear(d, d) for _ in range(n))

    def forward(self, x):
        p = self.switch(x).softmax(-1)
        pmax, routes = torch.max(p, dim=-1)
        lists = [torch.eq(routes, i).nonzero(as_tuple=True)[0] for i in range(self.n)]
        out = x.new_zeros(x.shape)
        capacity = int(self.cap * len(x) / self.n)
        counts = x.new_tensor([len(l) for l in lists])
        dropped = []
        for i in range(self.n):
            if len(lists[i]) <= capacity:
                continue
            dropped.append(lists[i][capacity:])
            lists[i] = lists[i][:capacity]
        for i in range(self.n):
            out[lists[i], :] = self.experts[i](x[lists[i], :])
        if dropped:
            dropped = torch.cat(dropped)
            out[dropped, :] = x[dropped, :]
        return out * pmax.view(-1, 1), counts, p.sum(0), len(dropped)


torch.manual_seed(0)
m, s = MoE(6, 5, 4, 8), Switch(5, 3)
opt = torch.optim.Adam([*m.parameters(), *s.parameters()], 1e-2)
x, y = torch.rand(20, 6), torch.randint(5, (20,))
log = []
for i in range(10):
    out, aux = m(x)
    z, counts, psum, nd = s(out)
    balance = 3 * (counts / counts.sum() * psum / len(x)).sum()
    loss = nn.CrossEntropyLoss()(z, y) + aux + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.append([loss.item(), aux.item(), nd])
m.eval()
with torch.no_grad():
    e, l = m(x)
outputs = {"log": log, "e": e, "l": l, "wn": m.w_noise.grad}
