# in-place writes that people do: DP tables, life, Sinkhorn, boundary conditions, ring buffers, masked fills, overlapping views, indices
import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
out = {}
a = torch.rand(4, 5, requires_grad=True)
D = torch.full((5, 6), float("inf"))
D[0, 0] = 0
for i in range(4):
    for j in range(5):
        D[i + 1, j + 1] = a[i, j] + torch.min(torch.stack([D[i, j].clone(), D[i, j + 1].clone(), D[i + 1, j].clone()]))
D[-1, -1].backward()
out["dtw"] = a.grad.clone()
a.grad = None
try:
    E = torch.zeros(5, 6)
    for i in range(4):
        E[i + 1, 1:] = torch.minimum(E[i, 1:], E[i, :-1]).exp() * a[i]
    E[-1].sum().backward()
    out["rows"] = a.grad.clone()
except RuntimeError as e:
    print("rows", str(e)[:200])
a.grad = None
u = torch.zeros(10, 10)
k = torch.tensor(0.2, requires_grad=True)
for t in range(5):
    u = u.clone()
    u[0] = 1.0
    u[:, -1] = k
    u[1:-1, 1:-1] += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
u.pow(2).sum().backward()
out["heat"] = k.grad
buf = torch.zeros(4, 3)
w = torch.randn(3, 3, requires_grad=True)
s = torch.ones(3)
tot = 0
for t in range(6):
    s = torch.tanh(w @ s)
    buf = buf.roll(-1, 0)
    buf[-1] = s
    tot = tot + buf.mean()
tot.backward()
out["ring"] = w.grad.clone()
w.grad = None
x = w * 2
x.fill_diagonal_(0)
x[x.abs() < 0.1] = 0
x[..., 0].clamp_(min=0)
x[1] = x[0].clone() * x[1].clone()
x[:, [0, 2]] = x[:, [2, 0]]
x[[0, 1]] -= 1
x[torch.tensor([True, False, True])] *= 2
x.t()[2].mul_(3)
x[None].squeeze(0).sub_(w)
x[-1:, ::2] = torch.tensor([7.0, 8.0])
x[0, 0] += w[1, 1] ** 2
x.sum().backward()
out["x"] = w.grad.clone()
print(x.grad_fn.name(), x._version)
w.grad = None
y = w.clone()
v1, v2 = y[:2], y[1:]
v1.mul_(v2.detach().clone())
v2 += 1
z = v1 * 2
y.zero_()
print(z.grad_fn.next_functions[0][0].name(), v1.grad_fn.name(), v2.tolist())
z.sum().backward()
out["ov"] = w.grad.clone()
w.grad = None
h = w.exp()
h2 = h * 1
for f in (
    lambda: h.add_(1) is None or h2.sum().backward() or h.sum().backward(),
    lambda: w.add_(1),
    lambda: w[0].zero_(),
    lambda: w.view(-1)[0].fill_(2),
    lambda: w.expand(2, 3, 3).add_(1),
    lambda: torch.ones(3).expand(2, 3).mul_(2),
    lambda: torch.ones(3)[:2].unfold(0, 1, 1).copy_(torch.ones(3)),
    lambda: torch.ones(2, 3).resize_(7),
    lambda: (w * 1).resize_(2),
    lambda: w.data.set_(torch.ones(2)),
    lambda: torch.arange(3).add_(1.5),
    lambda: torch.ones(3).bool().mul_(2),
    lambda: torch.ones(3)[[0, 1]].add_(1),
    lambda: torch.ones(3).index_add_(0, torch.tensor([0, 3]), torch.ones(2)),
    lambda: torch.ones(3).scatter_(0, torch.tensor([5]), 1.0),
    lambda: torch.zeros(2, 2).masked_scatter_(torch.ones(2, 2).bool(), torch.ones(3)),
    lambda: torch.zeros(3).__setitem__(5, 1),
    lambda: torch.zeros(3).__setitem__("a", 1),
    lambda: torch.zeros(3).__setitem__(slice(0, 2), torch.ones(3)),
    lambda: torch.zeros(3, dtype=torch.long).__setitem__(0, 1j),
    lambda: torch.zeros(2, 3).index_fill_(2, torch.tensor([0]), 1),
    lambda: torch.zeros(4).put_(torch.tensor([1, 9]), torch.ones(2)),
    lambda: torch.zeros(3).index_copy_(0, torch.tensor([0, 1]), torch.ones(3)),
    lambda: torch.ones(6)[::2].view(3, 1).squeeze_(0).transpose_(0, 1).add_(torch.ones(3, 2)),
):
    try:
        r = f()
        print(r if r is None or r.numel() < 8 else r.shape)
    except Exception as e:
        print(type(e).__name__, str(e).split("\n")[0][:170])
m = torch.zeros(4, 4)
m[torch.triu_indices(4, 4, 1).unbind()] = torch.arange(6.0)
m.T[torch.triu_indices(4, 4, 1).unbind()] = 5 * torch.ones(6)
m.diagonal()[:] = torch.arange(4)
m[1::2, ::3] = m[::2, 1:3]
m.select(0, 2).narrow(0, 1, 2).neg_()
m.unbind(1)[3].sqrt_()
print(m)
g = (torch.rand(8, 8) > 0.6).int()
kx = torch.ones(1, 1, 3, 3)
kx[..., 1, 1] = 0
for _ in range(4):
    n = F.conv2d(F.pad(g[None, None].float(), (1, 1, 1, 1), mode="circular"), kx)[0, 0].round().int()
    g &= (n == 2) | (n == 3)
    g |= n == 3
print(g.sum(), g.dtype, (g << 1).max(), (~g).min(), (g ^ 1).sum())
K = torch.rand(4, 4, requires_grad=True)
P = (-K / 0.3).exp()
for _ in range(6):
    P = P / P.sum(1, keepdim=True)
    P /= P.sum(0)
(P * K).sum().backward()
out["sink"] = K.grad
L = torch.randn(3, 4, requires_grad=True)
q = L * 1
q.masked_fill_(torch.ones(3, 4).triu(1).bool(), -1e9).sub_(q.max(1, keepdim=True)[0].detach()).exp_()
q = q / q.sum(1, keepdim=True)
q[0, 0].backward()
out["sm"] = L.grad
r = torch.arange(24.0).view(2, 3, 4)
r.transpose(0, 2)[1].mul_(-1)
r.permute(2, 0, 1)[0, 1, 2] = 100
r.flatten()[:3].zero_()
r.reshape(4, 6)[:, 0] += 0.5
r.as_strided((3,), (7,), 1).copy_(torch.tensor([9.0, 8, 7]))
r.movedim(0, -1)[..., 0].clamp_(max=10)
print(r, r._version)
t = torch.zeros(3)
ts = [t]
[ts.append(ts[-1].add_(1)) for _ in range(3)]
print(ts, ts[0] is ts[-1])
i = torch.tensor([0, 0, 1])
c = torch.zeros(2, requires_grad=True)
d = c.index_add(0, i, torch.ones(3)).index_put_((i,), torch.arange(3.0), accumulate=True)
d[i] += 1
d[i] = d[i] * 2
d.sum().backward()
print(d, c.grad)
n = nn.Linear(3, 2)
with torch.no_grad():
    n.weight[0] = 1.0
    n.weight[:, 1].zero_()
    n.bias += torch.tensor([1.0, 2.0])
    n.weight.data[1, 2] = 5.0
    n.weight.copy_(n.weight.clone().renorm_(2, 0, 1.0))
opt = torch.optim.Adagrad(n.parameters(), 0.1, initial_accumulator_value=0.1)
log = []
X = torch.randn(12, 3)
for e in range(85):
    yb = n(X)
    yb[:, 0] *= 2
    yb[yb < -1] = -1
    yb[::3] += X[::3, :2]
    lo = (yb.relu_() - 1).pow_(2).mean()
    opt.zero_grad()
    lo.backward()
    n.weight.grad[1] *= 0.5
    n.weight.grad.clamp_(-1, 1)
    opt.step()
    log.append(lo.item())
    if e % 20 == 0:
        with torch.no_grad():
            n.weight.mul_(0.9)
outputs = {**out, "log": log, "w": n.weight}
