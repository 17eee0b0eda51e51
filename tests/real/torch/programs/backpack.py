"""Gradients of samples and second-order quantities of a loss."""

import torch
from backpack import backpack, extend
from backpack.extensions import BatchGrad, BatchL2Grad, DiagGGNExact, Variance

torch.manual_seed(0)
model = extend(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 3)))
lossfunc = extend(torch.nn.CrossEntropyLoss())
X, y = torch.randn(8, 4), torch.randint(3, (8,))
loss = lossfunc(model(X), y)
with backpack(BatchGrad(), Variance(), BatchL2Grad(), DiagGGNExact()):
    loss.backward()
p = model[0].weight
outputs = {
    "grad": p.grad, "batch": p.grad_batch, "variance": p.variance, "l2": p.batch_l2, "ggn": p.diag_ggn_exact
}  # fmt: skip
