"""Small models of several kinds from their configurations: training steps, and text that they continue."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

ids = torch.arange(12).reshape(2, 6)


def trained(model, **batch):
    """Losses of three steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(input_ids=ids, **batch).loss
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    return torch.stack(losses)


torch.manual_seed(0)
sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
bert = BertForSequenceClassification(BertConfig(**sizes, **none, num_labels=3))
mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
found = {"bert": trained(bert, attention_mask=mask, labels=torch.tensor([0, 2]))}

none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
gpt = GPT2LMHeadModel(
    GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=39, **none)
)
found["gpt2"] = trained(gpt, labels=ids)

llama = LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=1, max_position_embeddings=32, pad_token_id=0))
found["llama"] = trained(llama, labels=ids)
llama.eval()
found["continued"] = llama.generate(ids[:, :3], max_new_tokens=4, do_sample=False)
outputs = {
    **found,
    "query": bert.bert.encoder.layer[0].attention.self.query.weight.grad,
    "embedding": gpt.lm_head.weight.grad,
}
