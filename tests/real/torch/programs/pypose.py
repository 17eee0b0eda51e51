"""Rigid motions as tensors of a class of their own: their logarithms, gradients, and an inverse by least squares."""

import pypose as pp
import torch
from torch import nn

torch.manual_seed(0)
motion, twist = pp.randn_SE3(3, requires_grad=True), pp.randn_se3(3, requires_grad=True)
points = torch.randn(3, 3)
moved = (motion @ twist.Exp()).Act(points)
loss = moved.square().sum() + (motion.Inv() @ pp.randn_SE3(3)).Log().tensor().square().sum()
loss.backward()
outputs = {"moved": moved, "loss": loss, "motion": motion.grad, "twist": twist.grad}


class Inverse(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.pose = pp.Parameter(pp.randn_SE3(count))

    def forward(self, given):
        return (self.pose @ given).Log().tensor()


given, inverse = pp.randn_SE3(2), Inverse(2)
optimizer = pp.optim.LM(inverse, strategy=pp.optim.strategy.Adaptive(damping=1e-4))
outputs |= {f"step {step}": optimizer.step(given) for step in range(2)}
outputs["pose"] = inverse.pose.tensor()
