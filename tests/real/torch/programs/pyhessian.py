"""Eigenvalues and the trace of the Hessian of a loss, by products with vectors."""

import torch
from pyhessian import hessian
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
curvature = hessian(net, nn.CrossEntropyLoss(), data=(x, y), cuda=False)
values, vectors = curvature.eigenvalues(top_n=2, maxIter=40)
outputs = {"values": values, "trace": curvature.trace(maxIter=5)}
outputs |= {f"vector {k}": part.abs() for k, part in enumerate(vectors[0])}
