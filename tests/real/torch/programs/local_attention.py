"""Attention in windows, from the README of local-attention."""

import torch
from local_attention import LocalAttention, LocalTransformer

torch.manual_seed(0)
q, k, v = (torch.randn(2, 2, 16, 8, requires_grad=True) for _ in range(3))
attention = LocalAttention(
    dim=8, window_size=4, causal=True, look_backward=1, look_forward=0, dropout=0.0, autopad=True
)
mask = torch.ones(2, 16).bool()
mask[1, 10:] = False
attention(q, k, v, mask=mask).square().sum().backward()
model = LocalTransformer(
    num_tokens=12, dim=8, depth=2, max_seq_len=16, causal=True, local_attn_window_size=4, dim_head=4, heads=2,
    use_xpos=True, xpos_scale_base=8,
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), 0.1)
losses = []
for _ in range(20):
    loss = model(torch.randint(0, 12, (2, 17)), return_loss=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
outputs = {"losses": losses, "q": q.grad, "k": k.grad}
