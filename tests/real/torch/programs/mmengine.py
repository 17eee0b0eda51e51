"""An optimiser that accumulates and clips gradients, and a moving average, in OpenMMLab's manner."""

import torch
from mmengine.model import ExponentialMovingAverage
from mmengine.optim import OptimWrapper

torch.manual_seed(0)
model = torch.nn.Linear(3, 2)
wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1), accumulative_counts=2, clip_grad={"max_norm": 1.0})
average = ExponentialMovingAverage(model)
x = torch.randn(4, 3)
outputs = {}
for step in range(4):
    with wrapper.optim_context(model):
        loss = model(x).square().mean()
    wrapper.update_params(loss)
    average.update_parameters(model)
    outputs[f"loss {step}"] = loss
outputs |= dict(model.named_parameters())
outputs |= {f"average {name}": p for name, p in average.module.named_parameters()}
