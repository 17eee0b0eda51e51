"""SimCLR NT-Xent, SupCon, MoCo queue, BYOL, Barlow Twins, VICReg, CLIP, triplet with hard mining, InfoNCE on CPC, SwAV's sinkhorn."""

from __future__ import print_function
import copy
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F


class SupConLoss(nn.Module):
    def __init__(self, temperature=0.07, contrast_mode="all", base_temperature=0.07):
        super(SupConLoss, self).__init__()
        self.temperature, self.contrast_mode, self.base_temperature = temperature, contrast_mode, base_temperature

    def forward(self, features, labels=None, mask=None):
        device = torch.device("cuda") if features.is_cuda else torch.device("cpu")
        if len(features.shape) > 3:
            features = features.view(features.shape[0], features.shape[1], -1)
        batch_size = features.shape[0]
        if labels is None and mask is None:
            mask = torch.eye(batch_size, dtype=torch.float32).to(device)
        elif labels is not None:
            labels = labels.contiguous().view(-1, 1)
            mask = torch.eq(labels, labels.T).float().to(device)
        contrast_count = features.shape[1]
        contrast_feature = torch.cat(torch.unbind(features, dim=1), dim=0)
        anchor_feature, anchor_count = contrast_feature, contrast_count
        logits = torch.div(torch.matmul(anchor_feature, contrast_feature.T), self.temperature)
        logits_max, _ = torch.max(logits, dim=1, keepdim=True)
        logits = logits - logits_max.detach()
        mask = mask.repeat(anchor_count, contrast_count)
        logits_mask = torch.scatter(
            torch.ones_like(mask), 1, torch.arange(batch_size * anchor_count).view(-1, 1).to(device), 0
        )
        mask = mask * logits_mask
        exp_logits = torch.exp(logits) * logits_mask
        log_prob = logits - torch.log(exp_logits.sum(1, keepdim=True))
        mask_pos_pairs = mask.sum(1)
        mask_pos_pairs = torch.where(mask_pos_pairs < 1e-6, 1, mask_pos_pairs)
        mean_log_prob_pos = (mask * log_prob).sum(1) / mask_pos_pairs
        loss = -(self.temperature / self.base_temperature) * mean_log_prob_pos
        return loss.view(anchor_count, batch_size).mean()


def nt_xent(z1, z2, t=0.5):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=-1)
    n = len(z1)
    l, r = torch.diag(sim, n), torch.diag(sim, -n)
    pos = torch.cat([l, r]).view(2 * n, 1)
    mask = (
        ~torch.eye(2 * n, dtype=torch.bool)
        & ~torch.diag(torch.ones(n), n).bool()
        & ~torch.diag(torch.ones(n), -n).bool()
    )
    neg = sim[mask].view(2 * n, -1)
    logits = torch.cat((pos, neg), dim=1) / t
    return nn.CrossEntropyLoss(reduction="sum")(logits, torch.zeros(2 * n).long()) / (2 * n)


def off_diagonal(x):
    n, m = x.shape
    assert n == m
    return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


def barlow(z1, z2, lambd=0.005):
    c = nn.BatchNorm1d(z1.shape[1], affine=False)(z1).T @ nn.BatchNorm1d(z1.shape[1], affine=False)(z2)
    c.div_(len(z1))
    on_diag = torch.diagonal(c).add_(-1).pow_(2).sum()
    return on_diag + lambd * off_diagonal(c).pow_(2).sum()


def vicreg(x, y):
    repr_loss = F.mse_loss(x, y)
    x, y = x - x.mean(dim=0), y - y.mean(dim=0)
    std_x, std_y = torch.sqrt(x.var(dim=0) + 0.0001), torch.sqrt(y.var(dim=0) + 0.0001)
    std_loss = torch.mean(F.relu(1 - std_x)) / 2 + torch.mean(F.relu(1 - std_y)) / 2
    cx, cy = (x.T @ x) / (len(x) - 1), (y.T @ y) / (len(x) - 1)
    cov_loss = off_diagonal(cx).pow_(2).sum().div(x.shape[1]) + off_diagonal(cy).pow_(2).sum().div(x.shape[1])
    return 25 * repr_loss + 25 * std_loss + cov_loss


@torch.no_grad()
def sinkhorn(out, eps=0.05, it=3):
    Q = torch.exp(out / eps).t()
    B, K = Q.shape[1], Q.shape[0]
    Q /= torch.sum(Q)
    for _ in range(it):
        Q /= torch.sum(Q, dim=1, keepdim=True)
        Q /= K
        Q /= torch.sum(Q, dim=0, keepdim=True)
        Q /= B
    Q *= B
    return Q.t()


def hard_triplet(e, labels, margin=0.3):
    n = e.size(0)
    dist = torch.pow(e, 2).sum(dim=1, keepdim=True).expand(n, n)
    dist = dist + dist.t()
    dist.addmm_(e, e.t(), beta=1, alpha=-2)
    dist = dist.clamp(min=1e-12).sqrt()
    mask = labels.expand(n, n).eq(labels.expand(n, n).t())
    dist_ap, dist_an = [], []
    for i in range(n):
        dist_ap.append(dist[i][mask[i]].max().unsqueeze(0))
        dist_an.append(dist[i][mask[i] == 0].min().unsqueeze(0))
    dist_ap, dist_an = torch.cat(dist_ap), torch.cat(dist_an)
    y = torch.ones_like(dist_an)
    prec = (dist_an.data > dist_ap.data).sum() * 1.0 / y.size(0)
    return nn.MarginRankingLoss(margin=margin)(dist_an, dist_ap, y), prec


class MoCo(nn.Module):
    def __init__(self, enc, dim=4, K=24, m=0.9, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q, self.encoder_k = enc(), enc()
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.data.copy_(pq.data)
            pk.requires_grad = False
        self.register_buffer("queue", torch.randn(dim, K))
        self.queue = nn.functional.normalize(self.queue, dim=0)
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, q, k):
        q = F.normalize(self.encoder_q(q), dim=1)
        with torch.no_grad():
            for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
                pk.data = pk.data * self.m + pq.data * (1.0 - self.m)
            idx = torch.randperm(len(k))
            k = F.normalize(self.encoder_k(k[idx]), dim=1)[torch.argsort(idx)]
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1)
        logits /= self.T
        with torch.no_grad():
            ptr = int(self.queue_ptr)
            self.queue[:, ptr : ptr + len(k)] = k.T
            self.queue_ptr[0] = (ptr + len(k)) % self.K
        return logits, torch.zeros(logits.shape[0], dtype=torch.long)


torch.manual_seed(0)
enc = lambda: nn.Sequential(nn.Linear(6, 12), nn.ReLU(inplace=True), nn.Linear(12, 4))
moco, online = MoCo(enc), enc()
target, pred = copy.deepcopy(online).requires_grad_(False), nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 4))
logit_scale, proto = (
    nn.Parameter(torch.ones([]) * np.log(1 / 0.07)),
    nn.utils.parametrizations.weight_norm(nn.Linear(4, 5, bias=False)),
)
opt = torch.optim.SGD(
    [
        {"params": moco.encoder_q.parameters()},
        {"params": [*online.parameters(), *pred.parameters()], "lr": 0.01},
        {"params": [logit_scale, *proto.parameters()], "weight_decay": 0.0},
    ],
    lr=0.02,
    momentum=0.9,
    nesterov=True,
    weight_decay=1e-4,
)
X, labels, log = torch.randn(32, 6), torch.arange(32) % 4, []
for it in range(6):
    i = torch.arange(8) + 8 * (it % 4)
    a, b = X[i] + 0.1 * torch.randn(8, 6), X[i] + 0.1 * torch.randn(8, 6)
    za, zb = online(a), online(b)
    with torch.no_grad():
        tb = target(b)
    logits, zeros = moco(a, b)
    s = logit_scale.exp() * F.normalize(za, dim=-1) @ F.normalize(zb, dim=-1).t()
    code, pr = sinkhorn(proto(F.normalize(zb, dim=1)).detach()), F.log_softmax(proto(F.normalize(za, dim=1)) / 0.1, 1)
    tri, prec = hard_triplet(za, labels[i])
    parts = [
        F.cross_entropy(logits, zeros),
        nt_xent(za, zb),
        SupConLoss()(F.normalize(torch.stack([za, zb], 1), dim=-1), labels[i]) * 0.1,
        2 - 2 * F.cosine_similarity(pred(za), tb.detach(), dim=-1).mean(),
        barlow(za, zb),
        vicreg(za, zb) * 0.02,
        (F.cross_entropy(s, torch.arange(8)) + F.cross_entropy(s.t(), torch.arange(8))) / 2,
        -(code * pr).sum(1).mean(),
        tri,
    ]
    loss = sum(parts)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(online.parameters(), 1.0, norm_type=float("inf"))
    opt.step()
    with torch.no_grad():
        for p, q in zip(online.parameters(), target.parameters()):
            q.copy_(0.95 * q + 0.05 * p)
    log.append([p.item() for p in parts] + [prec.item()])
outputs = {"log": log, "queue": moco.queue, "ls": logit_scale, "g": proto.parametrizations.weight.original0.grad}
