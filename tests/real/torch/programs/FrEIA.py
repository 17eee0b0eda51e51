"""Networks that can be inverted, of several blocks, trained on their densities."""

import FrEIA.framework as framework
import FrEIA.modules as modules
import numpy as np
import torch
from torch import nn


def subnet(inputs, results):
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, results))


torch.manual_seed(0)
np.random.seed(0)  # which its random rotations are drawn by
net = framework.SequenceINN(4)
net.append(modules.AllInOneBlock, subnet_constructor=subnet, permute_soft=True)
net.append(modules.RNVPCouplingBlock, subnet_constructor=subnet)
net.append(modules.GLOWCouplingBlock, subnet_constructor=subnet)
net.append(modules.ActNorm)
net.append(modules.OrthogonalTransform)
net.append(modules.HouseholderPerm, n_reflections=2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x, outputs = torch.randn(6, 4), {}
for step in range(3):
    optimizer.zero_grad()
    z, jacobian = net(x)
    loss = 0.5 * z.square().sum(1).mean() - jacobian.mean()
    loss.backward()
    optimizer.step()
    outputs[f"loss {step}"] = loss
outputs |= {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}
outputs["back"] = net(net(x)[0], rev=True)[0]
