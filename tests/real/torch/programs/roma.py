"""Rotations in several forms, and the nearest rotation to a matrix, with their gradients."""

import roma
import torch

torch.manual_seed(0)
quaternion, vector = roma.random_unitquat(5), torch.randn(5, 3, requires_grad=True)
matrix, x = roma.rotvec_to_rotmat(vector), torch.randn(5, 3, 3, requires_grad=True)
nearest, frame = roma.special_procrustes(x), roma.special_gramschmidt(x[..., :2])
angles, unit = roma.rotmat_to_euler("xyz", matrix), roma.rotmat_to_unitquat(matrix)
turn, _ = roma.rigid_points_registration(x[0], x[1])
loss = (nearest @ matrix).sum() + angles[:, 0].sum() + frame[..., 0].sum() + (unit * quaternion).sum() + turn.sum()
loss.backward()
outputs = {"loss": loss, "vector": vector.grad, "matrix": x.grad, "angles": angles, "unit": unit}
outputs["between"] = roma.unitquat_slerp(quaternion[0], quaternion[1], torch.linspace(0, 1, 4))
