"""Learning PyTorch with examples, autograd's tutorial, nn from scratch, zeroing, freezing, hooks for inspection, buffers, checkpoints."""

import math, pathlib, tempfile, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import Dataset, DataLoader, random_split

torch.manual_seed(0)
out = {}
x = torch.linspace(-math.pi, math.pi, 200)
y = torch.sin(x)
a, b, c, d = (torch.randn((), requires_grad=True) for _ in range(4))
ls = []
for t in range(300):
    loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 1e-6 * p.grad
            p.grad = None
    if t % 100 == 99:
        ls.append(loss.item())


class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i)
        return 0.5 * (5 * i**3 - 3 * i)

    @staticmethod
    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        return g * 1.5 * (5 * i**2 - 1)


p3 = LegendrePolynomial3.apply
for t in range(50):
    loss = (a + b * p3(c + d * x) - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 5e-6 * p.grad
            p.grad.zero_()
ls.append(loss.item())


class DynamicNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(()))
        self.e = nn.Parameter(torch.randn(()) * 1e-3)

    def forward(self, x, n):
        y = self.a * x
        for exp in range(4, 4 + n % 3):
            y = y + self.e * x**exp
        return y

    def string(self):
        return f"y = {self.a.item():.3f} x + {self.e.item():.3f}"


dn = DynamicNet()
opt = torch.optim.SGD(dn.parameters(), lr=1e-8, momentum=0.9)
for t in range(30):
    loss = nn.MSELoss(reduction="sum")(dn(x, t), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
ls.append(loss.item())
out["ls"] = ls


class Set(Dataset):
    def __init__(self):
        self.x = torch.randn(20, 4)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return self.x[i], self.y[i]


tr, te = random_split(Set(), [16, 4], generator=torch.Generator().manual_seed(0))
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.5)
acts, grads = {}, {}
h1 = net[1].register_forward_hook(lambda m, i, o: acts.__setitem__("relu", o.detach().mean()))
h2 = net[0].register_full_backward_hook(lambda m, gi, go: grads.__setitem__("l0", go[0].norm()))
for e in range(3):
    for xb, yb in DataLoader(tr, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(e)):
        loss = F.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
        opt.zero_grad()
h1.remove()
h2.remove()
out["train"] = [loss.item(), acts["relu"].item(), grads["l0"].item()]
path = pathlib.Path(tempfile.mkdtemp()) / "c.pt"
torch.save({"epoch": 3, "model": net.state_dict(), "optimizer": opt.state_dict(), "loss": loss}, path)
ck = torch.load(path, weights_only=True)
net2 = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
net2.load_state_dict(ck["model"])
out["loaded"] = net2(torch.ones(1, 4))
for p in net2[0].parameters():
    p.requires_grad = False
net2[2] = nn.Linear(8, 3)
opt = torch.optim.Adam(filter(lambda p: p.requires_grad, net2.parameters()))
net2(torch.ones(2, 4)).sum().backward()
opt.step()
out["frozen"] = [float(p.grad is None) for p in net2.parameters()]
deep = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)])
inp = torch.randn(2, 4, requires_grad=True)
checkpoint_sequential(deep, 2, inp, use_reentrant=False).sum().backward()
g = inp.grad.clone()
inp.grad = None
checkpoint(deep, inp, use_reentrant=True).sum().backward()
out["ck"] = torch.stack([g, inp.grad])
u = torch.tensor([1.0, 2.0], requires_grad=True)
v = u.detach().clone().requires_grad_()
(torch.autograd.functional.hessian(lambda z: (z**3).sum(), v))
out["hess"] = torch.autograd.functional.hessian(lambda z: (z**3).sum(), v)
w = nn.utils.parameters_to_vector(net.parameters())
nn.utils.vector_to_parameters(w * 0.5, net.parameters())
out["vec"] = w
out["repr"] = [len(repr(net)), len(dn.string())]
outputs = out
