"""Linear attention, Performer features, Reformer-like LSH, ALiBi, T5 bias, Swin windows, axial, local, sliding, memory compressed, sdpa masks, MHA with cache, talking heads, cosine attention, Nystrom."""

import math
from functools import partial
import torch, torch.nn as nn, torch.nn.functional as F
from torch import einsum


def elu_attn(q, k, v, causal):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        kv = einsum("bhnd,bhne->bhde", k, v)
        z = 1 / (einsum("bhnd,bhd->bhn", q, k.sum(dim=2)) + 1e-6)
        return einsum("bhnd,bhde,bhn->bhne", q, kv, z)
    kv = einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
    z = 1 / (q * k.cumsum(2)).sum(-1)
    return einsum("bhnd,bhnde,bhn->bhne", q, kv, z)


def orthogonal_matrix_chunk(cols):
    q, r = torch.linalg.qr(torch.randn((cols, cols)).cpu(), mode="reduced")
    return q.t()


def softmax_kernel(data, proj, is_query, eps=1e-4):
    b, h, *_ = data.shape
    dn = data.shape[-1] ** -0.25
    ratio = proj.shape[0] ** -0.5
    projection = proj[None, None].repeat(b, h, 1, 1).type_as(data)
    dash = torch.einsum("...id,...jd->...ij", (dn * data), projection)
    diag = (torch.sum(data**2, dim=-1) / 2.0 * dn**2).unsqueeze(dim=-1)
    stab = (
        torch.amax(dash, dim=-1, keepdim=True).detach()
        if is_query
        else torch.amax(dash, dim=(-1, -2), keepdim=True).detach()
    )
    return ratio * (torch.exp(dash - diag - stab) + eps)


def alibi_slopes(n):
    start = 2 ** (-(2 ** -(math.log2(n) - 3)))
    return torch.tensor([start * start**i for i in range(n)])


def t5_bucket(rel, causal=True, num_buckets=8, max_distance=16):
    ret, n = 0, -rel
    if not causal:
        num_buckets //= 2
        ret += (n < 0).long() * num_buckets
        n = torch.abs(n)
    else:
        n = torch.max(n, torch.zeros_like(n))
    max_exact = num_buckets // 2
    is_small = n < max_exact
    val = (
        max_exact
        + (torch.log(n.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)).long()
    )
    val = torch.min(val, torch.full_like(val, num_buckets - 1))
    ret += torch.where(is_small, n, val)
    return ret


def window_partition(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, w, w, C)


def window_reverse(windows, w, H, W):
    B = int(windows.shape[0] / (H * W / w / w))
    x = windows.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, w, heads):
        super().__init__()
        self.dim, self.w, self.h = dim, w, heads
        self.table = nn.Parameter(torch.zeros((2 * w - 1) * (2 * w - 1), heads))
        coords = torch.stack(torch.meshgrid([torch.arange(w), torch.arange(w)], indexing="ij"))
        cf = torch.flatten(coords, 1)
        rel = cf[:, :, None] - cf[:, None, :]
        rel = rel.permute(1, 2, 0).contiguous()
        rel[:, :, 0] += w - 1
        rel[:, :, 1] += w - 1
        rel[:, :, 0] *= 2 * w - 1
        self.register_buffer("index", rel.sum(-1))
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=True), nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.table, std=0.02)
        img_mask, cnt = torch.zeros((1, 4, 4, 1)), 0
        for h in (slice(0, -w), slice(-w, -1), slice(-1, None)):
            for ww in (slice(0, -w), slice(-w, -1), slice(-1, None)):
                img_mask[:, h, ww, :] = cnt
                cnt += 1
        mw = window_partition(img_mask, w).view(-1, w * w)
        am = mw.unsqueeze(1) - mw.unsqueeze(2)
        self.register_buffer("attn_mask", am.masked_fill(am != 0, float(-100.0)).masked_fill(am == 0, float(0.0)))

    def forward(self, x):
        x = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
        B, H, W, C = x.shape
        x = window_partition(x, self.w).view(-1, self.w**2, C)
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (C // self.h) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        nW = self.attn_mask.shape[0]
        attn = attn.view(B_ // nW, nW, self.h, N, N) + self.attn_mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, self.h, N, N).softmax(-1)
        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        x = window_reverse(self.proj(x).view(-1, self.w, self.w, C), self.w, H, W)
        return torch.roll(x, shifts=(1, 1), dims=(1, 2))


def lsh(qk, v, n_buckets=4, n_hashes=2, rot=None):
    B, S, d = qk.shape
    rotated = einsum("btf,fhi->bhti", qk, rot)
    rotated = torch.cat([rotated, -rotated], dim=-1)
    buckets = torch.argmax(rotated, dim=-1)
    outs = []
    for h in range(n_hashes):
        ticker = S * buckets[:, h] + torch.arange(S)
        _, order = ticker.sort(dim=-1)
        _, undo = order.sort(dim=-1)
        sq, sv = (t.gather(1, order.unsqueeze(-1).expand(-1, -1, t.size(-1))) for t in (qk, v))
        bq, bv = sq.reshape(B, n_buckets, -1, d), sv.reshape(B, n_buckets, -1, v.size(-1))
        bk = F.normalize(bq, p=2, dim=-1)
        look = lambda t: torch.cat([t, torch.cat([t[:, -1:], t[:, :-1]], dim=1)], dim=2)
        bk, bv = look(bk), look(bv)
        dots = einsum("bhie,bhje->bhij", bq, bk) * d**-0.5
        pos = order.reshape(B, n_buckets, -1)
        mask = pos[:, :, :, None] < look(pos)[:, :, None, :]
        dots.masked_fill_(mask, torch.finfo(dots.dtype).min)
        lse = torch.logsumexp(dots, dim=-1, keepdim=True)
        bo = einsum("buij,buje->buie", (dots - lse).exp().type_as(dots), bv).reshape(B, S, -1)
        outs.append(bo.gather(1, undo.unsqueeze(-1).expand_as(bo)))
    return torch.stack(outs).mean(0)


def nystrom(q, k, v, m=2):
    b, h, n, d = q.shape
    ql, kl = q.reshape(b, h, m, n // m, d).mean(3), k.reshape(b, h, m, n // m, d).mean(3)
    k1, k2, k3 = (F.softmax(a @ c.transpose(-1, -2), -1) for a, c in ((q, kl), (ql, kl), (ql, k)))
    I, K = torch.eye(m), k2
    V = 1 / torch.max(torch.sum(K, dim=-2)) * K.transpose(-1, -2)
    for _ in range(4):
        KV = torch.matmul(K, V)
        V = torch.matmul(0.25 * V, 13 * I - torch.matmul(KV, 15 * I - torch.matmul(KV, 7 * I - KV)))
    return k1 @ V @ (k3 @ v)


torch.manual_seed(0)
B, H, N, Dh = 2, 2, 8, 4
inp = nn.Linear(6, 3 * H * Dh)
rel = nn.Embedding(8, H)
win, mha = WindowAttention(4, 2, 2), nn.MultiheadAttention(6, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)
pre, post = nn.Parameter(torch.eye(H)), nn.Parameter(torch.eye(H))
proj = torch.cat([orthogonal_matrix_chunk(Dh) for _ in range(2)])
rot = torch.randn(Dh, 2, 2)
params = [*inp.parameters(), *rel.parameters(), *win.parameters(), *mha.parameters(), pre, post]
opt = torch.optim.AdamW(params, 1e-2)
x, img = torch.randn(B, N, 6), torch.randn(B, 4, 4, 4)
pos = torch.arange(N)
causal = torch.ones(N, N).tril().bool()
pad = torch.tensor([[False] * 8, [False] * 5 + [True] * 3])
log = []
for it in range(5):
    q, k, v = (t.view(B, N, H, Dh).transpose(1, 2) for t in inp(x).chunk(3, -1))
    o = [elu_attn(q, k, v, False), elu_attn(q, k, v, True)]
    qp, kp = softmax_kernel(q, proj, True), softmax_kernel(k, proj, False)
    D_inv = 1.0 / einsum("...nd,...d->...n", qp, kp.sum(dim=-2))
    o.append(einsum("...de,...nd,...n->...ne", einsum("...nd,...ne->...de", kp, v), qp, D_inv))
    dots = q @ k.transpose(-1, -2) / math.sqrt(Dh)
    al = alibi_slopes(H).view(1, H, 1, 1) * (pos[None, :] - pos[:, None])
    o.append((dots + al).masked_fill(~causal, float("-inf")).softmax(-1) @ v)
    o.append((dots + rel(t5_bucket(pos[None, :] - pos[:, None])).permute(2, 0, 1)).softmax(-1) @ v)
    th = einsum("bhij,hg->bgij", einsum("bhij,hg->bgij", dots, pre).softmax(-1), post)
    o.append(th @ v)
    o.append(F.scaled_dot_product_attention(q, k, v, is_causal=True))
    o.append(F.scaled_dot_product_attention(q, k, v, attn_mask=(~pad)[:, None, None, :], scale=0.3))
    local = (pos[:, None] - pos[None, :]).abs() <= 2
    o.append(F.scaled_dot_product_attention(q, k, v, attn_mask=torch.zeros(N, N).masked_fill(~local, -1e4)))
    o.append(nystrom(q, k, v))
    o.append(lsh(q.reshape(B * H, N, Dh), v.reshape(B * H, N, Dh), rot=rot).view(B, H, N, Dh))
    m, aw = mha(x, x, x, key_padding_mask=pad, attn_mask=~causal, need_weights=True, average_attn_weights=False)
    loss = (
        sum((t - 0.1 * i).pow(2).mean() for i, t in enumerate(o))
        + win(img).sin().mean()
        + m.pow(2).mean()
        + aw.pow(2).mean()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.append(loss.item())
outputs = {
    "log": log,
    "outs": torch.stack([t.detach() for t in o]),
    "table": win.table.grad,
    "aw": aw,
    "kvb": mha.bias_k.grad,
    "pre": pre,
}
