"""Codebooks that are learnt, finite and residual, from the README of vector-quantize-pytorch."""

import torch
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, SimVQ, VectorQuantize

torch.manual_seed(0)
quantizers = {
    "learnt": VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0),
    "cosine": VectorQuantize(dim=8, codebook_size=16, use_cosine_sim=True, rotation_trick=True),
    "kmeans": VectorQuantize(dim=8, codebook_size=8, kmeans_init=True, kmeans_iters=3, codebook_dim=4),
    "residual": ResidualVQ(dim=8, num_quantizers=3, codebook_size=16),
    "finite": FSQ(levels=[5, 3, 4], dim=8),
    "free": LFQ(codebook_size=16, dim=8, entropy_loss_weight=0.1),
    "simple": SimVQ(dim=8, codebook_size=16),
}
outputs = {}
for name, quantizer in quantizers.items():
    x = torch.randn(2, 10, 8, requires_grad=True)
    quantized, indices, *losses = quantizer(x)
    ((quantized**2).sum() + sum(loss.sum() for loss in losses)).backward()
    outputs |= {f"{name} quantized": quantized, f"{name} indices": indices, f"{name} gradient": x.grad}
