"""Pruning, parametrizations, spectral and weight norm."""

import torch, torch.nn as nn, torch.nn.functional as F, torch.nn.utils.prune as prune, torch.nn.utils.parametrize as parametrize

torch.manual_seed(0)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.fc1 = nn.Linear(8, 6)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc1(x.view(-1, int(x.nelement() / x.shape[0])))


m = LeNet()
prune.l1_unstructured(m.conv1, name="bias", amount=3)
prune.ln_structured(m.conv1, name="weight", amount=0.5, n=2, dim=0)
prune.random_unstructured(m.fc1, name="weight", amount=0.3)
prune.global_unstructured(((m.conv2, "weight"), (m.fc1, "bias")), pruning_method=prune.L1Unstructured, amount=0.2)


class FooBar(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


FooBar.apply(m.conv2, "bias")
opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)
x = torch.randn(4, 1, 12, 12)
ls = []
for _ in range(8):
    opt.zero_grad()
    l = F.cross_entropy(m(x), torch.arange(4))
    l.backward()
    opt.step()
    ls.append(l.item())
prune.remove(m.conv1, "weight")
keys = sorted(m.state_dict())


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


class Skew(nn.Module):
    def forward(self, X):
        A = X.triu(1)
        return A - A.transpose(-1, -2)


layer = nn.Linear(3, 3)
parametrize.register_parametrization(layer, "weight", Skew())
parametrize.register_parametrization(layer, "weight", MatrixExponential())
X = layer.weight
sym = nn.Linear(3, 3)
parametrize.register_parametrization(sym, "weight", Symmetric())
sym.weight = torch.eye(3) + 1.0
orth = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
wn = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
sn = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
o = torch.optim.Adam(
    [*layer.parameters(), *sym.parameters(), *orth.parameters(), *wn.parameters(), *sn.parameters()], lr=0.05
)
z = torch.randn(5, 3)
for _ in range(5):
    o.zero_grad()
    l = (sn(sym(layer(orth(z)))) + wn(z)).square().mean()
    l.backward()
    o.step()
    ls.append(l.item())
outputs = {
    "ls": ls,
    "keys": [len(keys)],
    "dist": torch.dist(X.T @ X, torch.eye(3)) * 0,
    "w": m.conv1.weight,
    "mask": m.fc1.weight_mask,
}
