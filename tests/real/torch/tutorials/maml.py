"""MAML, Reptile, ANIL, learned learning rates and meta-SGD, hypergradients."""

import os, torch
from torch import nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

STEPS = 10
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=1e-2)
alphas = {n: nn.Parameter(torch.full_like(p, 0.05)) for n, p in net.named_parameters()}
ma = torch.optim.SGD(alphas.values(), lr=1e-3)


def task():
    A, b = torch.rand(1) * 4 + 1, torch.rand(1) * 3

    def data():
        x = torch.rand(8, 1) * 10 - 5
        return x, A * torch.sin(x + b)

    return data


losses = []
for i in range(STEPS):
    meta.zero_grad()
    ma.zero_grad()
    total = 0.0
    for _ in range(2):
        data = task()
        params = dict(net.named_parameters())
        x, y = data()
        for inner in range(3):
            l = F.mse_loss(functional_call(net, params, (x,)), y)
            gs = torch.autograd.grad(l, list(params.values()), create_graph=True)
            params = {n: p - alphas[n] * g for (n, p), g in zip(params.items(), gs)}
        x, y = data()
        total = total + F.mse_loss(functional_call(net, params, x), y)
    total.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    nn.utils.clip_grad_value_(alphas.values(), 0.1)
    meta.step()
    ma.step()
    losses.append(total.item())


def loss_f(params, x, y):
    return F.mse_loss(functional_call(net, params, (x,)), y)


def adapted(params, xs, ys, xq, yq):
    g = grad(loss_f)(params, xs, ys)
    return loss_f({k: params[k] - 0.05 * g[k] for k in params}, xq, yq)


ps = {k: v.detach() for k, v in net.named_parameters()}
X, Y = torch.randn(4, 2, 8, 1), torch.randn(4, 2, 8, 1)
tl = vmap(adapted, in_dims=(None, 0, 0, 0, 0))(ps, X[:, 0], Y[:, 0], X[:, 1], Y[:, 1])
mg = grad(lambda p: vmap(adapted, in_dims=(None, 0, 0, 0, 0))(p, X[:, 0], Y[:, 0], X[:, 1], Y[:, 1]).mean())(ps)
lr = torch.tensor(0.1, requires_grad=True)
w = torch.randn(3, requires_grad=True)
v = w
for i in range(5):
    (g,) = torch.autograd.grad((v**4).sum() + v.prod(), v, create_graph=True)
    v = v - lr * g
hyper = torch.autograd.grad(v.square().sum(), (lr, w), create_graph=True)
second = torch.autograd.grad(hyper[0], lr)
outputs = {"losses": losses, "tl": tl, "hyper": hyper[0]}
