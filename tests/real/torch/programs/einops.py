"""Patches of an image as a sequence, and a layer in a network."""

import torch
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2)
pooled = reduce(x, "b c (h 2) (w 2) -> b c h w", "max")
wide = repeat(pooled, "b c h w -> b c (h k) w", k=3)
net = torch.nn.Sequential(Rearrange("b c h w -> b (c h w)"), torch.nn.Linear(192, 4))
attention = einsum(patches, patches, "b i d, b j d -> b i j").softmax(-1)
loss = net(x).square().sum() + wide.sum() + attention.square().sum()
loss.backward()
outputs = {"loss": loss, "grad": x.grad, "weight": net[1].weight.grad, "attention": attention}
