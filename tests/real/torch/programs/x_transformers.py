"""A small decoder, one training step."""

import torch
from x_transformers import Decoder, TransformerWrapper

torch.manual_seed(0)
model = TransformerWrapper(
    num_tokens=32, max_seq_len=16, attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True)
)
tokens = torch.randint(0, 32, (2, 16))
logits = model(tokens)
loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
loss.backward()
norms = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None])
outputs = {"logits": logits, "loss": loss, "norms": norms}
