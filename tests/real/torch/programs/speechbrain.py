"""Layers for speech: a light GRU, convolutions, and filters that are learnt."""

import torch
from speechbrain.nnet.CNN import Conv1d, SincConv
from speechbrain.nnet.RNN import LiGRU

torch.manual_seed(0)
layers = torch.nn.ModuleList([
    LiGRU(hidden_size=6, input_shape=(2, 8, 4)),
    Conv1d(5, 3, input_shape=(2, 8, 4)),
    SincConv(4, 9, input_shape=(2, 40), sample_rate=16000),
])  # fmt: skip
features, wave = torch.randn(2, 8, 4), torch.randn(2, 40)
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2, eps=1e-3)
outputs = {}
for step in range(3):
    optimizer.zero_grad()
    loss = (
        layers[0](features)[0].square().mean() + layers[1](features).square().mean() + layers[2](wave).square().mean()
    )
    loss.backward()
    optimizer.step()
    outputs[f"loss {step}"] = loss
outputs |= {name: p.grad for name, p in layers.named_parameters()}
