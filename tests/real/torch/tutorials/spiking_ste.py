"""Spiking nets with surrogate gradients (SuperSpike, after Zenke's spytorch), straight-through quantisation (LSQ, DoReFa, XNOR), Gumbel, REBAR-ish, VQ."""

import math
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
from torch.autograd import Function


class SurrGradSpike(torch.autograd.Function):
    scale = 100.0

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        out = torch.zeros_like(input)
        out[input > 0] = 1.0
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad = grad_input / (SurrGradSpike.scale * torch.abs(input) + 1.0) ** 2
        return grad


spike_fn = SurrGradSpike.apply


def run_snn(inputs, w1, w2, v1, alpha=0.9, beta=0.85):
    B, T, _ = inputs.shape
    h1_from_input = torch.einsum("abc,cd->abd", (inputs, w1))
    syn, mem, out = torch.zeros(B, 10), torch.zeros(B, 10), torch.zeros(B, 10)
    mem_rec, spk_rec = [], []
    for t in range(T):
        h1 = h1_from_input[:, t] + torch.einsum("ab,bc->ac", (out, v1))
        mthr = mem - 1.0
        out = spike_fn(mthr)
        rst = out.detach()
        new_syn = alpha * syn + h1
        new_mem = (beta * mem + syn) * (1.0 - rst)
        mem_rec.append(mem)
        spk_rec.append(out)
        mem, syn = new_mem, new_syn
    mem_rec, spk_rec = torch.stack(mem_rec, dim=1), torch.stack(spk_rec, dim=1)
    h2 = torch.einsum("abc,cd->abd", (spk_rec, w2))
    flt, out, out_rec = torch.zeros(B, 3), torch.zeros(B, 3), [torch.zeros(B, 3)]
    for t in range(T):
        new_flt = alpha * flt + h2[:, t]
        out = beta * out + flt
        flt = new_flt
        out_rec.append(out)
    return torch.stack(out_rec, dim=1), mem_rec, spk_rec


class RoundSTE(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class BinActive(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        input = input.sign()
        return input

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.ge(1)] = 0
        grad_input[input.le(-1)] = 0
        return grad_input


class FunLSQ(Function):
    @staticmethod
    def forward(ctx, weight, alpha, g, Qn, Qp):
        assert alpha > 0, "alpha = {}".format(alpha)
        ctx.save_for_backward(weight, alpha)
        ctx.other = g, Qn, Qp
        return (weight / alpha).round().clamp(Qn, Qp) * alpha

    @staticmethod
    def backward(ctx, grad_weight):
        weight, alpha = ctx.saved_tensors
        g, Qn, Qp = ctx.other
        q_w = weight / alpha
        small, big = (q_w < Qn).float(), (q_w > Qp).float()
        mid = 1.0 - small - big
        grad_alpha = ((small * Qn + big * Qp + mid * (-q_w + q_w.round())) * grad_weight * g).sum().unsqueeze(dim=0)
        grad_weight = mid * grad_weight
        return grad_weight, grad_alpha, None, None, None


class LSQ(nn.Linear):
    def __init__(self, *a, bits=3, **k):
        super().__init__(*a, **k)
        self.Qn, self.Qp = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.alpha = nn.Parameter(torch.ones(1))
        self.register_buffer("init_state", torch.zeros(1))

    def forward(self, x):
        if self.init_state == 0:
            self.alpha.data.copy_(2 * self.weight.abs().mean() / math.sqrt(self.Qp))
            self.init_state.fill_(1)
        g = 1.0 / math.sqrt(self.weight.numel() * self.Qp)
        return F.linear(BinActive.apply(x), FunLSQ.apply(self.weight, self.alpha, g, self.Qn, self.Qp), self.bias)


def dorefa(w, k=2):
    w = torch.tanh(w)
    w = w / (2 * w.abs().max()) + 0.5
    return 2 * RoundSTE.apply(w * (2**k - 1)) / (2**k - 1) - 1


class VQ(nn.Module):
    def __init__(self, K, D, beta=0.25, decay=0.9):
        super().__init__()
        self.register_buffer("e", torch.randn(K, D))
        self.register_buffer("N", torch.zeros(K))
        self.register_buffer("z_avg", self.e.data.clone())
        self.beta, self.decay = beta, decay

    def forward(self, z):
        d = z.pow(2).sum(1, keepdim=True) + self.e.pow(2).sum(1) - 2 * z @ self.e.t()
        i = torch.argmin(d, dim=1)
        onehot = F.one_hot(i, len(self.e)).type(z.dtype)
        q = F.embedding(i, self.e)
        if self.training:
            with torch.no_grad():
                self.N.data.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
                self.z_avg.data.mul_(self.decay).add_(onehot.t() @ z, alpha=1 - self.decay)
                n = self.N.sum()
                w = (self.N + 1e-5) / (n + len(self.e) * 1e-5) * n
                self.e.data.copy_(self.z_avg / w.unsqueeze(1))
        loss = self.beta * F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        p = onehot.mean(0)
        return q, loss, torch.exp(-torch.sum(p * torch.log(p + 1e-10)))


torch.manual_seed(0)
w1 = torch.empty((7, 10), requires_grad=True)
torch.nn.init.normal_(w1, mean=0.0, std=0.9)
w2, v1 = torch.empty((10, 3), requires_grad=True), torch.empty((10, 10), requires_grad=True)
torch.nn.init.normal_(w2, std=0.3)
torch.nn.init.normal_(v1, std=0.1)
opt = torch.optim.Adamax([w1, w2, v1], lr=2e-3, betas=(0.9, 0.999))
x = (torch.rand(6, 12, 7) < 0.3).float()
y = torch.randint(3, (6,))
log = []
for e in range(4):
    out, mem, spk = run_snn(x, w1, w2, v1)
    m, _ = torch.max(out, 1)
    reg = 2e-3 * torch.sum(spk) + 2e-3 * torch.mean(torch.sum(torch.sum(spk, dim=0), dim=0) ** 2)
    loss = nn.NLLLoss()(nn.LogSoftmax(dim=1)(m), y) + reg
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.append([loss.item(), spk.sum().item(), 0])
net, vq, fc = (
    nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), LSQ(8, 8)),
    VQ(6, 8),
    nn.Parameter(torch.randn(4, 8) * 0.1),
)
opt = torch.optim.NAdam([*net.parameters(), fc], lr=1e-2)
X, Y = torch.randn(20, 7), torch.randint(4, (20,))
for e in range(4):
    z, l, perp = vq(net(X))
    logits = F.linear(z, dorefa(fc))
    gs = F.gumbel_softmax(logits, tau=0.7, hard=True)
    loss = F.cross_entropy(logits, Y) + l + 0.1 * (gs * torch.arange(4.0)).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    for p in net[2].parameters():
        p.data.clamp_(-1.5, 1.5)
    opt.step()
    log.append([loss.item(), l.item(), perp.item()])
outputs = {"log": log, "w1": w1.grad, "alpha": net[2].alpha, "e": vq.e, "gs": gs}
