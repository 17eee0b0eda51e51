"""Adapters of a small language model, trained and merged."""

import torch
from peft import IA3Config, LoHaConfig, LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

ids = torch.tensor([[1, 5, 9, 3, 7, 2], [1, 4, 8, 6, 2, 0]])
adapters = {
    "lora": LoraConfig(r=2, target_modules=["q_proj", "v_proj"]),
    "dora": LoraConfig(r=2, target_modules=["q_proj", "v_proj"], use_dora=True),
    "loha": LoHaConfig(r=2, target_modules=["q_proj", "v_proj"]),
    "ia3": IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
}
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
outputs = {}
for name, adapter in adapters.items():
    torch.manual_seed(0)
    model = get_peft_model(LlamaForCausalLM(LlamaConfig(vocab_size=16, num_key_value_heads=2, **sizes)), adapter)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    outputs[f"{name} losses"] = losses
    with torch.no_grad():
        outputs[f"{name} merged"] = model.merge_and_unload()(input_ids=ids).logits
