"""Rotary and axial embeddings, from the README of rotary-embedding-torch."""

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

torch.manual_seed(0)
rotary = RotaryEmbedding(dim=4, learned_freq=True)
q, k = torch.randn(1, 2, 6, 8, requires_grad=True), torch.randn(1, 2, 6, 8)
optimizer = torch.optim.Adam(rotary.parameters(), 1e-2)
losses = []
for _ in range(40):
    scores = rotary.rotate_queries_or_keys(q) @ rotary.rotate_queries_or_keys(k).transpose(-1, -2)
    loss = scores.softmax(-1).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
scaled = RotaryEmbedding(dim=4, use_xpos=True)
turned = scaled.rotate_queries_and_keys(q, k)
axes = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=16)
image = apply_rotary_emb(axes.get_axial_freqs(3, 4), torch.randn(1, 3, 4, 8))
outputs = {"losses": losses, "grad": q.grad, "freqs": rotary.freqs, "turned": turned[0], "image": image}
