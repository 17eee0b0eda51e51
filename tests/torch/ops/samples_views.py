"""Samples of views, and of copies into tensors."""

import numpy as np

from tests.torch.ops.sample import Sample, normal

A, B = normal(2, 3, 4), normal(3, 4, seed=1)
C = normal(3, dtype="complex128")

SAMPLES = [
    Sample("select", (A, 1, -1)),
    Sample("narrow", (A, 2, 1, 2)),
    Sample("permute", (A, (2, 0, 1))),
    Sample("transpose", (A, 0, -1)),
    Sample("t", (B,)),
    Sample("swapaxes", (A, 0, 1)),
    Sample("swapdims", (A, 0, 1)),
    Sample("movedim", (A, (0, 1), (2, 0))),
    Sample("moveaxis", (A, 0, -1)),
    Sample("adjoint", (normal(2, 2, dtype="complex128"),)),
    Sample("Tensor.view", (A, 6, -1)),
    Sample("Tensor.view_as", (A, normal(4, 6)), frozen=(1,)),
    Sample("reshape", (A, (4, 6))),
    Sample("Tensor.reshape_as", (A, normal(4, 6)), frozen=(1,)),
    Sample("flatten", (A, 1)),
    Sample("ravel", (A,)),
    Sample("unflatten", (A, 2, (2, 2))),
    Sample("Tensor.expand", (normal(3, 1), 2, 3, 4)),
    Sample("Tensor.expand_as", (normal(3, 1), A.swapaxes(1, 2)[:, :3] * 0 + normal(2, 3, 3)), frozen=(1,)),
    Sample("broadcast_to", (normal(3, 1), (3, 4))),
    Sample("squeeze", (normal(1, 3, 1),)),
    Sample("squeeze", (normal(1, 3, 1), 0), label="dim"),
    Sample("squeeze", (normal(1, 3, 1), (0, 2)), label="dims"),
    Sample("unsqueeze", (B, 1)),
    Sample("view_as_real", (C,)),
    Sample("view_as_complex", (normal(3, 2),)),
    Sample("real", (C,)),
    Sample("imag", (C,)),
    Sample("conj", (C,)),
    Sample("diagonal", (A, 1, 1, 2)),
    Sample("Tensor.unfold", (B, 1, 2, 1)),
    Sample("Tensor.unfold", (np.zeros((2, 0)), 1, 0, 2), label="of nothing"),
    Sample("as_strided", (B, (2, 2), (5, 1), 1)),
    Sample("unbind", (B, 1)),
    Sample("split", (B, 2, 1)),
    Sample("split", (B, [1, 3], 1), label="sections"),
    Sample("chunk", (B, 3, 1)),
    Sample("tensor_split", (B, 3, 1)),
    Sample("hsplit", (B, 2)),
    Sample("vsplit", (B, 3)),
    Sample("dsplit", (A, 2)),
    Sample("clone", (A,)),
    Sample("Tensor.contiguous", (A,)),
    Sample("fill", (B, 2.0)),
    Sample("fill", (B, np.array(2.0)), label="tensor"),
    Sample("linalg.vector_norm", (B,)),
]
