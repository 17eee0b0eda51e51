"""Flows trained on samples and on a density, from the README and the examples of normflows."""

import normflows as nf
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
base = nf.distributions.base.DiagGaussian(2)
layers = []
for _ in range(3):
    layers += [
        nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 8, 2], init_zeros=True)),
        nf.flows.Permute(2, mode="swap"),
    ]
layers += [nf.flows.CoupledRationalQuadraticSpline(2, 1, 8), nf.flows.LULinearPermute(2), nf.flows.ActNorm(2)]
model = nf.NormalizingFlow(base, layers)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
forward = []
for _ in range(6):
    optimizer.zero_grad()
    loss = model.forward_kld(torch.randn(32, 2) * torch.tensor([1.0, 0.4]) + 0.5)
    loss.backward()
    optimizer.step()
    forward.append(loss.item())
planar = nf.NormalizingFlow(base, [nf.flows.Planar((2,)) for _ in range(4)], nf.distributions.TwoMoons())
optimizer = torch.optim.RMSprop(planar.parameters(), lr=1e-2)
reverse = []
for _ in range(5):
    optimizer.zero_grad()
    loss = planar.reverse_kld(20)
    loss.backward()
    optimizer.step()
    reverse.append(loss.item())
outputs = {"forward": forward, "sample": model.sample(5)[0], "reverse": reverse}
torch.set_default_dtype(torch.float32)
