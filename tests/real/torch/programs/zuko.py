"""Normalizing flows, from the README of zuko."""

import torch
import zuko
import zuko.bayesian

torch.manual_seed(0)
flow = zuko.flows.NSF(features=3, context=2, transforms=2, hidden_features=(16, 16))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
losses = []
for _ in range(40):
    c = torch.randn(16, 2)
    x = torch.cat([c, c.sum(-1, keepdim=True)], -1) + 0.3 * torch.randn(16, 3)
    loss = -flow(c).log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
sample = flow(torch.zeros(2)).rsample((5,))
maf = zuko.flows.MAF(3, 0, transforms=2)
density = maf().log_prob(torch.randn(4, 3))
mixture = zuko.flows.GMM(2, 0, components=3)
unnormed = zuko.flows.NICE(4, 0, transforms=2)
other = unnormed().log_prob(torch.randn(2, 4))
bayesian = zuko.bayesian.BayesianModel(zuko.nn.MLP(2, 1, hidden_features=(8,)), init_logvar=-2.0)
with bayesian.reparameterize() as network:
    uncertain = network(torch.ones(4, 2)).square().mean()
    uncertain.backward()
with bayesian.reparameterize(local_trick=True) as network:
    local = network(torch.ones(4, 2))
spreads = torch.cat([p.grad.flatten() for p in bayesian.logvars.values()])
outputs = {
    "losses": losses, "sample": sample, "density": density, "other": other,
    "mixture": mixture().log_prob(torch.zeros(3, 2)),
    "uncertain": uncertain, "local": local, "spreads": spreads,
}  # fmt: skip
