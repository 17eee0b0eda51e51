# torch.nn.utils.parametrize as in the tutorial and the forum, with what people do to parametrized models afterwards
import copy, io, pickle, torch, torch.nn as nn, torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

torch.manual_seed(0)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class Skew(nn.Module):
    def forward(self, X):
        A = X.triu(1)
        return A - A.transpose(-1, -2)


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


class CayleyMap(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("Id", torch.eye(n))

    def forward(self, X):
        return torch.linalg.solve(self.Id - X, self.Id + X)

    def right_inverse(self, A):
        return torch.linalg.solve(A + self.Id, self.Id - A)


class RankK(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, U, V):
        return U @ V

    def right_inverse(self, X):
        u, s, v = torch.linalg.svd(X, full_matrices=False)
        s = s[: self.k].sqrt()
        return u[:, : self.k] * s, s[:, None] * v[: self.k]


l = nn.Linear(3, 3)
parametrize.register_parametrization(l, "weight", Symmetric())
print(l)
print(torch.allclose(l.weight, l.weight.T), [n for n, _ in l.named_parameters()])
l.weight = torch.arange(9.0).view(3, 3)
print(l.weight, l.parametrizations.weight.original)
m = nn.Linear(3, 3)
parametrize.register_parametrization(m, "weight", Skew())
parametrize.register_parametrization(m, "weight", CayleyMap(3))
print(m.parametrizations.weight[0], torch.dist(m.weight.T @ m.weight, torch.eye(3)) < 1e-5)
try:
    m.weight = torch.eye(3)
except Exception as e:
    print(type(e).__name__, str(e).split("\n")[0])
r = nn.Linear(4, 5)
parametrize.register_parametrization(r, "weight", RankK(2))
print(sorted(r.state_dict()), torch.linalg.matrix_rank(r.weight).item(), type(r).__name__, isinstance(r, nn.Linear))
net = nn.Sequential(
    orthogonal(nn.Linear(4, 4)),
    nn.Tanh(),
    spectral_norm(nn.Linear(4, 6)),
    nn.Tanh(),
    weight_norm(nn.Linear(6, 4), dim=0),
    m2 := nn.Linear(4, 4),
    r,
)
parametrize.register_parametrization(m2, "weight", nn.Sequential(Skew(), MatrixExponential()), unsafe=True)
net2 = copy.deepcopy(net)
opt = torch.optim.Adam(net.parameters(), lr=0.02)
X, T = torch.randn(20, 4), torch.randn(20, 5)
log = []
for i in range(85):
    opt.zero_grad()
    if i % 2:
        with parametrize.cached():
            a = net(X)
            w1, w2 = net[0].weight, net[0].weight
            assert w1 is w2
            loss = F.mse_loss(a, T) + F.mse_loss(net(X * 0.9), T)
    else:
        loss = 2 * F.mse_loss(net(X), T)
    loss.backward()
    opt.step()
    log.append(loss.item())
print("%.4f" % log[-1], parametrize.is_parametrized(net[0]), parametrize.is_parametrized(net[0], "bias"))
print(
    torch.dist(net[0].weight @ net[0].weight.T, torch.eye(4)) < 1e-4,
    torch.linalg.matrix_norm(net[2].eval().weight, 2) < 1.2,
)
sd = net.state_dict()
print(list(sd)[:6], net2.load_state_dict(sd))
net2.eval()
net.eval()
print(torch.equal(net(X), net2(X)))
y0 = net(X).detach()
for k in (0, 2, 4, 5, 6):
    parametrize.remove_parametrizations(net[k], "weight")
print(type(net[0]).__name__, [n for n, _ in net.named_parameters()][:4], torch.allclose(net(X), y0, atol=1e-6))
try:
    pickle.dumps(net2)
except Exception as e:
    print(type(e).__name__, str(e)[:80])
b = io.BytesIO()
torch.save(net2.state_dict(), b)
b.seek(0)
print(len(torch.load(b)))
old = torch.nn.utils.weight_norm(nn.Linear(3, 2), name="weight")
old2 = torch.nn.utils.spectral_norm(nn.Linear(3, 2))
print([n for n, _ in old.named_parameters()], [n for n, _ in old2.named_buffers()])
(old(torch.ones(1, 3)).sum() + old2(torch.ones(1, 3)).sum()).backward()
gg = old.weight_g.grad.clone()
torch.nn.utils.remove_weight_norm(old)
torch.nn.utils.remove_spectral_norm(old2)
print([n for n, _ in old.named_parameters()], [n for n, _ in old2.named_parameters()], old2.weight.requires_grad)
v = torch.nn.utils.parameters_to_vector(net.parameters())
torch.nn.utils.vector_to_parameters(v * 0.5, net.parameters())
outputs = {
    "log": log,
    "v": v,
    "gg": gg,
    "o": old2.weight_orig.grad if hasattr(old2, "weight_orig") else 0,
    "w": net[6].weight,
}
