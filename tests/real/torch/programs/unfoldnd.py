"""Patches in one, two and three dimensions."""

import torch
import unfoldNd

torch.manual_seed(0)
outputs = {}
for n in (1, 2, 3):
    x = torch.randn(2, 2, *(5,) * n, requires_grad=True)
    patches = unfoldNd.unfoldNd(x, 3, padding=1, stride=2)
    folded = unfoldNd.foldNd(patches, (5,) * n, 3, padding=1, stride=2)
    (patches.square().sum() + folded.sum()).backward()
    outputs |= {f"patches {n}": patches, f"folded {n}": folded, f"grad {n}": x.grad}
