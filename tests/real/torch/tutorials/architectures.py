"""U-Net, ResNet, MobileNet-like, squeeze-excite, ViT, MLP-Mixer, ConvNeXt, diffusion step, VQ-VAE, NeRF, SIREN, neural ODE step, normalising flow, MoE, LoRA, RoPE, RMSNorm, SwiGLU, GQA, KV cache."""

import math, torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
out = {}


def train(m, f, n=4, lr=1e-2, opt=torch.optim.AdamW):
    o = opt(m.parameters(), lr=lr)
    ls = []
    for _ in range(n):
        o.zero_grad()
        l = f()
        l.backward()
        o.step()
        ls.append(l.item())
    return ls


class Basic(nn.Module):
    def __init__(s, i, o, st=1):
        super().__init__()
        s.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
        s.b1 = nn.BatchNorm2d(o)
        s.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        s.b2 = nn.BatchNorm2d(o)
        s.sc = (
            nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o))
            if st != 1 or i != o
            else nn.Sequential()
        )
        s.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(o, 2, 1), nn.SiLU(), nn.Conv2d(2, o, 1), nn.Hardsigmoid()
        )

    def forward(s, x):
        h = s.b2(s.c2(F.relu(s.b1(s.c1(x)), inplace=True)))
        h = h * s.se(h)
        h += s.sc(x)
        return F.relu(h)


im, lab = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
r = nn.Sequential(
    Basic(3, 4),
    Basic(4, 6, 2),
    nn.Conv2d(6, 6, 3, groups=6, padding=1),
    nn.GELU(),
    nn.GroupNorm(2, 6),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(6, 3),
)
out["resnet"] = train(r, lambda: F.cross_entropy(r(im), lab))


class UNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.d1 = nn.Conv2d(3, 4, 3, padding=1)
        s.d2 = nn.Conv2d(4, 8, 3, padding=1)
        s.up = nn.ConvTranspose2d(8, 4, 2, 2)
        s.o = nn.Conv2d(8, 3, 1)
        s.t = nn.Linear(4, 8)

    def forward(s, x, t):
        e = torch.cat([torch.sin(t[:, None] * torch.arange(1, 3)), torch.cos(t[:, None] * torch.arange(1, 3))], 1)
        a = F.silu(s.d1(x))
        b = F.silu(s.d2(F.max_pool2d(a, 2)) + s.t(e)[:, :, None, None])
        return s.o(torch.cat([s.up(b), a], 1))


u = UNet()
beta = torch.linspace(1e-4, 0.02, 10)
ab = torch.cumprod(1 - beta, 0)


def ddpm():
    t = torch.randint(0, 10, (4,))
    e = torch.randn_like(im)
    x = ab[t].sqrt().view(-1, 1, 1, 1) * im + (1 - ab[t]).sqrt().view(-1, 1, 1, 1) * e
    return F.mse_loss(u(x, t.float()), e)


out["ddpm"] = train(u, ddpm)


class RMSNorm(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.w = nn.Parameter(torch.ones(d))

    def forward(s, x):
        return s.w * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)


def rope(x):
    d = x.shape[-1]
    f = 1.0 / (10000 ** (torch.arange(0, d, 2)[: d // 2].float() / d))
    fc = torch.polar(torch.ones(x.shape[1], d // 2), torch.outer(torch.arange(x.shape[1]), f))
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(xc * fc[None, :, None]).flatten(3).type_as(x)


class Llama(nn.Module):
    def __init__(s, d=8, h=4, kv=2):
        super().__init__()
        s.n1, s.n2 = RMSNorm(d), RMSNorm(d)
        s.h, s.kv, s.hd = h, kv, 4
        s.wq, s.wk, s.wv, s.wo = (
            nn.Linear(d, h * 4, bias=False),
            nn.Linear(d, kv * 4, bias=False),
            nn.Linear(d, kv * 4, bias=False),
            nn.Linear(h * 4, d, bias=False),
        )
        s.w1, s.w2, s.w3 = nn.Linear(d, 16, bias=False), nn.Linear(16, d, bias=False), nn.Linear(d, 16, bias=False)

    def forward(s, x):
        b, t, _ = x.shape
        y = s.n1(x)
        q, k, v = rope(s.wq(y).view(b, t, s.h, 4)), rope(s.wk(y).view(b, t, s.kv, 4)), s.wv(y).view(b, t, s.kv, 4)
        k, v = (z[:, :, :, None, :].expand(b, t, s.kv, s.h // s.kv, 4).reshape(b, t, s.h, 4) for z in (k, v))
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        sc = torch.matmul(q, k.transpose(2, 3)) / 2 + torch.triu(torch.full((t, t), float("-inf")), 1)
        x = x + s.wo((F.softmax(sc.float(), -1).type_as(q) @ v).transpose(1, 2).contiguous().view(b, t, -1))
        y = s.n2(x)
        return x + s.w2(F.silu(s.w1(y)) * s.w3(y))


ll = Llama()
xs = torch.randn(2, 5, 8)
out["llama"] = train(ll, lambda: (ll(xs) - xs.flip(1)).pow(2).mean())


class LoRA(nn.Module):
    def __init__(s, base, r=2):
        super().__init__()
        s.base = base.requires_grad_(False)
        s.A = nn.Parameter(torch.randn(r, base.in_features) * 0.1)
        s.B = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(s, x):
        return s.base(x) + (x @ s.A.T) @ s.B.T


lo = LoRA(nn.Linear(8, 8))
out["lora"] = train(lo, lambda: (lo(xs) - xs.flip(1)).pow(2).mean(), 6)


class MoE(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Linear(8, 4)
        s.e = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(s, x):
        x = x.view(-1, 8)
        w, i = torch.topk(s.g(x), 2)
        w = F.softmax(w, 1)
        r = torch.zeros_like(x)

    def forward(s, x):
        x = x.view(-1, 8)
        w, sel = torch.topk(s.g(x), 2)
        w = F.softmax(w, dim=1, dtype=torch.float)
        r = torch.zeros_like(x)
        for i, e in enumerate(s.e):
            bi, ni = torch.where(sel == i)
            r[bi] += w[bi, ni, None] * e(x[bi])
        return r


mo = MoE()
out["moe"] = train(mo, lambda: (mo(xs) - xs.flip(1).view(-1, 8)).pow(2).mean(), 6)


class VQ(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Linear(8, 4)
        s.cb = nn.Embedding(5, 4)
        s.d = nn.Linear(4, 8)
        s.cb.weight.data.uniform_(-1 / 5, 1 / 5)

    def forward(s, x):
        z = s.e(x.view(-1, 8))
        i = (z.pow(2).sum(1, keepdim=True) - 2 * z @ s.cb.weight.T + s.cb.weight.pow(2).sum(1)).argmin(1).unsqueeze(1)
        oh = torch.zeros(i.shape[0], 5)
        oh.scatter_(1, i, 1)
        q = oh @ s.cb.weight
        l = F.mse_loss(q.detach(), z) * 0.25 + F.mse_loss(q, z.detach())
        q = z + (q - z).detach()
        p = oh.mean(0)
        return l + F.mse_loss(s.d(q), x.view(-1, 8)), torch.exp(-torch.sum(p * torch.log(p + 1e-10)))


vq = VQ()
out["vq"] = train(vq, lambda: vq(xs)[0], 8)
out["perp"] = vq(xs)[1]


class Coupling(nn.Module):
    def __init__(s, f):
        super().__init__()
        s.f = f
        s.n = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(s, x):
        a, b = x.chunk(2, 1)
        a, b = (b, a) if s.f else (a, b)
        ls, t = s.n(a).chunk(2, 1)
        b = b * ls.tanh().exp() + t
        return torch.cat((b, a) if s.f else (a, b), 1), ls.tanh().sum(1)


fl = nn.ModuleList([Coupling(i % 2) for i in range(3)])
pts = torch.randn(32, 2) * torch.tensor([2.0, 0.5])


def nll():
    x, ld = pts, 0
    for c in fl:
        x, l = c(x)
        ld = ld + l
    return (0.5 * x.pow(2).sum(1) - ld).mean()


out["flow"] = train(fl, nll, 10)
sr = nn.Sequential(nn.Linear(2, 16), nn.Linear(16, 1))
co = (
    torch.stack(torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 5), indexing="ij"), -1)
    .view(-1, 2)
    .requires_grad_(True)
)


def siren():
    y = sr[1](torch.sin(30 * sr[0](co)))
    g = torch.autograd.grad(y, co, torch.ones_like(y), create_graph=True)[0]
    lap = sum(torch.autograd.grad(g[:, i], co, torch.ones_like(g[:, i]), create_graph=True)[0][:, i] for i in range(2))
    return (g - co.detach()).pow(2).mean() + 1e-4 * lap.pow(2).mean()


out["siren"] = train(sr, siren, 4, 1e-4, torch.optim.Adam)
rays_o, rays_d = torch.zeros(6, 3), F.normalize(torch.randn(6, 3), dim=-1)
nf = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))


def nerf():
    t = torch.linspace(0.5, 2, 8)
    p = rays_o[:, None] + rays_d[:, None] * t[None, :, None]
    raw = nf(p)
    al = 1 - torch.exp(-F.relu(raw[..., 3]) * torch.cat([t[1:] - t[:-1], torch.tensor([1e10])]))
    w = al * torch.cumprod(torch.cat([torch.ones(6, 1), 1 - al + 1e-10], -1), -1)[:, :-1]
    return ((w[..., None] * torch.sigmoid(raw[..., :3])).sum(1) - 0.5).pow(2).mean()


out["nerf"] = train(nf, nerf, 8)
mha = nn.MultiheadAttention(8, 2, batch_first=True, bias=True, add_bias_kv=True, kdim=6, vdim=5)
o, w = mha(xs, torch.randn(2, 4, 6), torch.randn(2, 4, 5), average_attn_weights=False)
(o.sum() + w.pow(2).sum()).backward()
out["mha"] = mha.q_proj_weight.grad
outputs = out
