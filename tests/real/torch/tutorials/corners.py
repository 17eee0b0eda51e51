"""Odd corners: in-place indexing, scatter, unfold, ConvLSTM, CTC, weight drop, multi-task, TripletLoss, custom optimiser, hooks on tensors, ParameterList, Module subclasses of subclasses, ddp-like averaging, cosine similarity, cdist, kl, soft targets, label smoothing, focal."""

import copy, math, torch, torch.nn as nn, torch.nn.functional as F
from collections import OrderedDict, defaultdict

torch.manual_seed(3)
out = {}


class ConvLSTMCell(nn.Module):
    def __init__(s, i, h, k):
        super().__init__()
        s.h = h
        s.conv = nn.Conv2d(i + h, 4 * h, k, padding=k // 2)

    def forward(s, x, st):
        h, c = st
        i, f, o, g = torch.split(s.conv(torch.cat([x, h], 1)), s.h, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


cell = ConvLSTMCell(1, 2, 3)
st = (torch.zeros(1, 2, 5, 5),) * 2
x = torch.randn(1, 4, 1, 5, 5)
for t in range(4):
    st = cell(x[:, t], st)
st[0].sum().backward()
out["convlstm"] = cell.conv.weight.grad
lp = torch.randn(8, 2, 5, requires_grad=True)
F.ctc_loss(
    lp.log_softmax(2),
    torch.tensor([[1, 2, 2], [3, 1, 0]]),
    torch.tensor([8, 7]),
    torch.tensor([3, 2]),
    zero_infinity=True,
).backward()
out["ctc"] = lp.grad
a, b = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3, requires_grad=True)
(
    torch.cdist(a, b).min(1).values.sum()
    + F.cosine_similarity(a[:, None], b[None], dim=-1).max()
    + F.triplet_margin_loss(a, b[:4], b[1:])
    + F.pairwise_distance(a, b[:4]).prod()
).backward()
out["dist"] = torch.cat([a.grad, b.grad])
lg = torch.randn(6, 4, requires_grad=True)
tgt = torch.tensor([0, 1, 2, 3, -100, 1])
l = (
    F.cross_entropy(lg, tgt, label_smoothing=0.1, weight=torch.tensor([1.0, 2, 3, 4]))
    + F.kl_div(lg.log_softmax(1), torch.softmax(torch.randn(6, 4), 1), reduction="batchmean")
    + F.multi_margin_loss(lg[:4], tgt[:4])
    + F.gaussian_nll_loss(lg[:, 0], lg[:, 1], lg[:, 2].exp())
    + F.poisson_nll_loss(lg, lg.detach().abs())
    + F.multilabel_soft_margin_loss(lg, (lg > 0).float())
    + F.soft_margin_loss(lg, lg.detach().sign())
)
l.backward()
out["losses"] = lg.grad


class Lookahead(torch.optim.Optimizer):
    def __init__(s, base, k=3, alpha=0.5):
        s.base, s.k, s.alpha = base, k, alpha
        s.param_groups = base.param_groups
        s.state = defaultdict(dict)
        s.fast = base.state
        [g.__setitem__("counter", 0) for g in s.param_groups]
        s.defaults = base.defaults
        s._optimizer_step_pre_hooks = OrderedDict()
        s._optimizer_step_post_hooks = OrderedDict()

    def step(s, closure=None):
        loss = s.base.step(closure)
        for g in s.param_groups:
            if g["counter"] == 0:
                for p in g["params"]:
                    ps = s.state[p]
                    if "slow" not in ps:
                        ps["slow"] = torch.empty_like(p.data)
                        ps["slow"].copy_(p.data)
                    ps["slow"].add_((p.data - ps["slow"]) * s.alpha)
                    p.data.copy_(ps["slow"])
            g["counter"] = (g["counter"] + 1) % s.k
        return loss


class SAM(torch.optim.Optimizer):
    def __init__(s, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        s.base = base(s.param_groups, **kw)
        s.param_groups = s.base.param_groups

    @torch.no_grad()
    def first(s):
        n = torch.norm(torch.stack([p.grad.norm(p=2) for g in s.param_groups for p in g["params"]]), p=2)
        for g in s.param_groups:
            for p in g["params"]:
                s.state[p]["old"] = p.data.clone()
                p.add_(p.grad * g["rho"] / (n + 1e-12))
        s.zero_grad()

    @torch.no_grad()
    def second(s):
        for g in s.param_groups:
            for p in g["params"]:
                p.data = s.state[p]["old"]
        s.base.step()
        s.zero_grad()


net = nn.Sequential(OrderedDict([("fc", nn.Linear(3, 5)), ("act", nn.PReLU()), ("out", nn.Linear(5, 1))]))
net2 = copy.deepcopy(net)
X, Y = torch.randn(16, 3), torch.randn(16, 1)
o = Lookahead(torch.optim.RAdam(net.parameters(), lr=0.05))
sam = SAM(net2.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
ls = []
for _ in range(20):
    net.zero_grad()
    l = F.mse_loss(net(X), Y)
    l.backward()
    o.step()
    F.mse_loss(net2(X), Y).backward()
    sam.first()
    l2 = F.mse_loss(net2(X), Y)
    l2.backward()
    sam.second()
    ls += [l.item(), l2.item()]
out["ls"] = ls
w = torch.randn(4, 4, requires_grad=True)
seen = []
h = w.register_hook(lambda g: seen.append(g.norm().item()) or g * 2)
m = w * 1.0
m[0] = 0
m[:, 1] *= 3
m[m > 1] = m[m > 1].sqrt()
m.diagonal().add_(1.0)
m.scatter_add_(1, torch.tensor([[0, 1], [2, 3]]), torch.ones(2, 2))
m.index_put_((torch.tensor([0, 1]), torch.tensor([2, 2])), torch.tensor([5.0, 6.0]), accumulate=True)
m.unsqueeze_(0).squeeze_(0).t_()
(m.tril() @ m.triu()).logsumexp(1).sum().backward()
out["inplace"] = torch.cat([w.grad, torch.tensor(seen).expand(1, 4)])
im = torch.randn(1, 2, 6, 6, requires_grad=True)
u = F.unfold(im, 3, padding=1, stride=2)
f = F.fold(u * 2, (6, 6), 3, padding=1, stride=2)
g = F.grid_sample(
    f,
    F.affine_grid(torch.tensor([[[0.8, 0.1, 0], [0, 1.1, 0.2]]]), (1, 2, 4, 4), align_corners=False),
    align_corners=False,
)
(
    F.adaptive_avg_pool2d(g, 2).sum()
    + F.lp_pool2d(im.abs() + 1, 2, 2).sum()
    + F.local_response_norm(im, 2).sum()
    + F.avg_pool2d(im, 3, 1, 1, count_include_pad=False).sum()
    + F.max_unpool2d(*F.max_pool2d(im, 2, return_indices=True), 2).sum()
    + F.pad(im, (1, 2, 0, 1), "circular").pow(2).sum()
).backward()
out["im"] = im.grad
emb = nn.EmbeddingBag(7, 3, mode="mean")
e2 = nn.Embedding(7, 3, padding_idx=0, max_norm=1.0)
(
    emb(torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 3])).pow(2).sum() + e2(torch.tensor([0, 1, 1, 2])).sum()
).backward()
out["emb"] = torch.cat([emb.weight.grad, e2.weight.grad])
tr = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"),
    2,
    enable_nested_tensor=False,
)
s = torch.randn(2, 5, 8)
mask = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
y = tr(s, src_key_padding_mask=mask, mask=nn.Transformer.generate_square_subsequent_mask(5))
y[~mask].sum().backward()
out["tr"] = tr.layers[0].self_attn.in_proj_weight.grad
p = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 4, 2), [4, 2, 3], batch_first=True, enforce_sorted=False)
rn = nn.LSTM(2, 3, 2, bidirectional=True, batch_first=True, proj_size=2)
yo, (hn, cn) = rn(p)
yo, ln = nn.utils.rnn.pad_packed_sequence(yo, batch_first=True)
(yo.sum() + hn.pow(2).sum()).backward()
out["rnn"] = torch.cat([q.grad.flatten() for q in rn.parameters()])
A = torch.randn(4, 4, dtype=torch.double, requires_grad=True)
S = A @ A.T + 4 * torch.eye(4, dtype=torch.double)
(
    torch.linalg.eigvalsh(S).log().sum()
    + torch.linalg.cholesky(S).diagonal().prod()
    + torch.linalg.svdvals(A).sum()
    + torch.linalg.solve(S, A).sum()
    + torch.logdet(S)
    + torch.linalg.qr(A)[1].abs().sum()
    + torch.matrix_exp(A * 0.1).sum()
    + torch.linalg.pinv(A).sum()
    + torch.linalg.lstsq(A, S).solution.sum()
    + torch.linalg.matrix_norm(A, "nuc")
).backward()
out["linalg"] = A.grad
z = torch.randn(5, dtype=torch.cfloat, requires_grad=True)
(
    torch.fft.fft(z).abs().pow(2).sum()
    + torch.view_as_real(z * z.conj()).sum()
    + z.angle().sum()
    + torch.stft(z.real.repeat(8), 8, return_complex=True, window=torch.hann_window(8)).abs().sum()
).backward()
out["cplx"] = torch.view_as_real(z.grad)
from torch.distributions import (
    Normal,
    kl_divergence,
    Beta,
    MixtureSameFamily,
    Categorical,
    Independent,
    TransformedDistribution,
    AffineTransform,
    SigmoidTransform,
    Dirichlet,
    Gamma,
    RelaxedOneHotCategorical,
    MultivariateNormal,
    LowRankMultivariateNormal,
    StudentT,
)

th = torch.tensor([0.3, 0.7, 1.2], requires_grad=True)
n = Normal(th, th.exp())
gm = MixtureSameFamily(Categorical(th.softmax(0)), n)
td = TransformedDistribution(n, [AffineTransform(th, 2.0), SigmoidTransform()])
mv = MultivariateNormal(th, torch.diag(th.exp()))
(
    kl_divergence(n, Normal(0.0, 1.0)).sum()
    + gm.log_prob(torch.tensor(0.2))
    + td.log_prob(torch.tensor([0.2, 0.5, 0.9])).sum()
    + Beta(th, 1 + th).entropy().sum()
    + mv.rsample().sum()
    + mv.entropy()
    + Dirichlet(th).log_prob(torch.tensor([0.2, 0.3, 0.5]))
    + Gamma(th, th).log_prob(torch.ones(3)).sum()
    + RelaxedOneHotCategorical(torch.tensor(0.5), logits=th).rsample().max()
    + StudentT(th + 2).log_prob(torch.ones(3)).sum()
    + LowRankMultivariateNormal(th, th[:, None], th.exp()).log_prob(torch.zeros(3))
).backward()
out["dist2"] = th.grad
outputs = out
