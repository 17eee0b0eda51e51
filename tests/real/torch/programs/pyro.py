"""Variational inference of a coin's fairness: the introduction's example."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from torch.distributions import constraints

pyro.set_rng_seed(0)
data = torch.tensor([1.0] * 6 + [0.0] * 4)


def model(data):
    fairness = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Bernoulli(fairness), obs=data)


def guide(data):
    centre = pyro.param("centre", torch.tensor(0.1))
    scale = pyro.param("scale", torch.tensor(0.5), constraint=constraints.positive)
    base = dist.Normal(centre, scale)
    pyro.sample("fairness", dist.TransformedDistribution(base, [dist.transforms.SigmoidTransform()]))


svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
losses = [torch.tensor(svi.step(data)) for _ in range(10)]
outputs = {"losses": torch.stack(losses), "centre": pyro.param("centre"), "scale": pyro.param("scale")}
