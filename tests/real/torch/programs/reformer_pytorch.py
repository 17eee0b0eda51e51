"""Attention by hashing and reversible layers, which compute their inputs again, from the README of reformer-pytorch."""

import torch
from reformer_pytorch import LSHSelfAttention, ReformerLM

outputs = {}
torch.manual_seed(0)
model = ReformerLM(
    num_tokens=20,
    dim=16,
    depth=2,
    max_seq_len=32,
    heads=2,
    lsh_dropout=0.1,
    causal=True,
    bucket_size=4,
    n_hashes=2,
    ff_chunks=2,
)
tokens = torch.randint(0, 20, (2, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(tokens).transpose(1, 2), tokens)
    loss.backward()
    optimizer.step()
    outputs[f"loss {step}"] = loss
outputs |= {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}

attention = LSHSelfAttention(dim=16, heads=2, bucket_size=4, n_hashes=4, causal=False)
x = torch.randn(2, 32, 16, requires_grad=True)
attended = attention(x)
attended.square().sum().backward()
outputs |= {"attended": attended, "gradient": x.grad}
