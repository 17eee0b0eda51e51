"""An acquisition function of a Gaussian process and its gradient."""

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
train_x = torch.rand(10, 2, dtype=torch.double)
train_y = 1 - (train_x - 0.5).norm(dim=-1, keepdim=True)
model = SingleTaskGP(train_x, train_y)
objective = ExactMarginalLogLikelihood(model.likelihood, model)
loss = -objective(model(train_x), model.train_targets)
loss.backward()
model.eval()
point = torch.full((3, 1, 2), 0.3, dtype=torch.double, requires_grad=True)
bound = UpperConfidenceBound(model, beta=0.1)(point)
improvement = LogExpectedImprovement(model, best_f=train_y.max())(point)
(bound + improvement).sum().backward()
outputs = {"loss": loss, "bound": bound, "improvement": improvement, "grad": point.grad}
