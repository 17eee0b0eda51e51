"""Regression by a Gaussian process: the first tutorial."""

import math

import gpytorch
import torch

train_x = torch.linspace(0, 1, 30)
train_y = torch.sin(train_x * (2 * math.pi)) + 0.1 * torch.cos(40 * train_x)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(train_x, train_y, likelihood)
model.train(), likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
losses = []
for _ in range(8):
    optimizer.zero_grad()
    loss = -objective(model(train_x), train_y)
    loss.backward()
    losses.append(loss.detach())
    optimizer.step()
model.eval(), likelihood.eval()
with torch.no_grad():
    prediction = likelihood(model(torch.linspace(0, 1, 11)))
outputs = {
    "losses": torch.stack(losses),
    "mean": prediction.mean,
    "variance": prediction.variance,
    "lengthscale": model.covar_module.base_kernel.lengthscale,
}
