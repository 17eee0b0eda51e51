"""A small GPT of litgpt, and one with adapters (LoRA), trained for some steps."""

import torch
from litgpt import lora
from litgpt.config import Config
from litgpt.model import GPT

sizes = {"block_size": 12, "vocab_size": 20, "padded_vocab_size": 20, "n_layer": 2, "n_head": 2, "n_embd": 16}
torch.manual_seed(0)
plain = GPT(Config(**sizes, n_query_groups=1, rotary_percentage=0.5))
adapted = lora.GPT(lora.Config(**sizes, lora_r=2, lora_alpha=4, lora_query=True, lora_value=True))
lora.mark_only_lora_as_trainable(adapted)
tokens = torch.randint(0, 20, (2, 8))
outputs = {}
for name, model in {"plain": plain, "adapted": adapted}.items():
    trained = {key: p for key, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), lr=1e-2, eps=1e-3)
    for step in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
        loss.backward()
        optimizer.step()
        outputs[f"{name} loss {step}"] = loss
    outputs |= {f"{name} {key}": p.grad for key, p in trained.items()}
