"""Spherical harmonics, and the matrices of rotations."""

import torch
from e3nn import o3

torch.manual_seed(0)
x = torch.randn(5, 3, requires_grad=True)
harmonics = o3.spherical_harmonics([0, 1, 2], x, normalize=True)
harmonics.pow(3).sum().backward()
irreps = o3.Irreps("1x0e + 2x1o")
rotation = o3.rand_matrix()
outputs = {"harmonics": harmonics, "grad": x.grad, "D": irreps.D_from_matrix(rotation), "3j": o3.wigner_3j(1, 1, 2)}
