"""LoRA: Linear, Embedding, MergedLinear and Conv (after microsoft/LoRA), merged at eval; only the small matrices are saved."""

import io, math
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALayer:
    def __init__(self, r, lora_alpha, lora_dropout, merge_weights):
        self.r, self.lora_alpha = r, lora_alpha
        self.lora_dropout = nn.Dropout(p=lora_dropout) if lora_dropout > 0.0 else (lambda x: x)
        self.merged, self.merge_weights = False, merge_weights


class Embedding(nn.Embedding, LoRALayer):
    def __init__(self, n, d, r=0, lora_alpha=1, merge_weights=True, **kwargs):
        nn.Embedding.__init__(self, n, d, **kwargs)
        LoRALayer.__init__(self, r=r, lora_alpha=lora_alpha, lora_dropout=0, merge_weights=merge_weights)
        if r > 0:
            self.lora_A = nn.Parameter(self.weight.new_zeros((r, n)))
            self.lora_B = nn.Parameter(self.weight.new_zeros((d, r)))
            self.scaling = self.lora_alpha / self.r
            self.weight.requires_grad = False
        self.reset_parameters()

    def reset_parameters(self):
        nn.Embedding.reset_parameters(self)
        if hasattr(self, "lora_A"):
            nn.init.zeros_(self.lora_A)
            nn.init.normal_(self.lora_B)

    def train(self, mode: bool = True):
        nn.Embedding.train(self, mode)
        if mode and self.merge_weights and self.merged:
            self.weight.data -= (self.lora_B @ self.lora_A).transpose(0, 1) * self.scaling
            self.merged = False
        elif not mode and self.merge_weights and not self.merged:
            self.weight.data += (self.lora_B @ self.lora_A).transpose(0, 1) * self.scaling
            self.merged = True
        return self

    def forward(self, x):
        if self.r > 0 and not self.merged:
            result = nn.Embedding.forward(self, x)
            after_A = F.embedding(
                x,
                self.lora_A.transpose(0, 1),
                self.padding_idx,
                self.max_norm,
                self.norm_type,
                self.scale_grad_by_freq,
                self.sparse,
            )
            result += (after_A @ self.lora_B.transpose(0, 1)) * self.scaling
            return result
        return nn.Embedding.forward(self, x)


class MergedLinear(nn.Linear, LoRALayer):
    def __init__(self, i, o, r=0, lora_alpha=1, enable_lora=[False], **kwargs):
        nn.Linear.__init__(self, i, o, **kwargs)
        LoRALayer.__init__(self, r=r, lora_alpha=lora_alpha, lora_dropout=0.0, merge_weights=True)
        self.enable_lora = enable_lora
        if r > 0 and any(enable_lora):
            self.lora_A = nn.Parameter(self.weight.new_zeros((r * sum(enable_lora), i)))
            self.lora_B = nn.Parameter(self.weight.new_zeros((o // len(enable_lora) * sum(enable_lora), r)))
            self.scaling = self.lora_alpha / self.r
            self.weight.requires_grad = False
            self.lora_ind = self.weight.new_zeros((o,), dtype=torch.bool).view(len(enable_lora), -1)
            self.lora_ind[enable_lora, :] = True
            self.lora_ind = self.lora_ind.view(-1)
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def zero_pad(self, x):
        result = x.new_zeros((len(self.lora_ind), *x.shape[1:]))
        result[self.lora_ind] = x
        return result

    def merge_AB(self):
        delta = F.conv1d(self.lora_A.unsqueeze(0), self.lora_B.unsqueeze(-1), groups=sum(self.enable_lora)).squeeze(0)
        return self.zero_pad(delta)

    def train(self, mode=True):
        nn.Linear.train(self, mode)
        if mode and self.merged:
            self.weight.data -= self.merge_AB() * self.scaling
            self.merged = False
        elif not mode and not self.merged:
            self.weight.data += self.merge_AB() * self.scaling
            self.merged = True
        return self

    def forward(self, x):
        if self.merged:
            return F.linear(x, self.weight, bias=self.bias)
        result = F.linear(x, self.weight, bias=self.bias)
        result += self.lora_dropout(x) @ (self.merge_AB().T * self.scaling)
        return result


class LoRAConv2d(nn.Module, LoRALayer):
    def __init__(self, i, o, k, r=2):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, padding=1)
        LoRALayer.__init__(self, r, 1, 0.0, True)
        self.lora_A = nn.Parameter(self.conv.weight.new_zeros((r * k, i * k)))
        self.lora_B = nn.Parameter(self.conv.weight.new_zeros((o // self.conv.groups * k, r * k)))
        self.scaling = 0.5
        self.conv.weight.requires_grad = False
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        return self.conv._conv_forward(
            x,
            self.conv.weight + (self.lora_B @ self.lora_A).view(self.conv.weight.shape) * self.scaling,
            self.conv.bias,
        )


def mark_only_lora_as_trainable(model, bias="none"):
    for n, p in model.named_parameters():
        if "lora_" not in n:
            p.requires_grad = False
    if bias == "all":
        for n, p in model.named_parameters():
            if "bias" in n:
                p.requires_grad = True


def lora_state_dict(model):
    my = model.state_dict()
    return {k: my[k] for k in my if "lora_" in k or "bias" in k}


torch.manual_seed(0)
model = nn.Sequential(
    Embedding(11, 6, r=2, lora_alpha=4),
    MergedLinear(6, 9, r=2, enable_lora=[True, False, True]),
    nn.Unflatten(1, (1, 3)) if False else nn.Identity(),
    nn.Linear(9, 4),
)
conv = LoRAConv2d(1, 3, 3)
mark_only_lora_as_trainable(model, "all")
opt = torch.optim.AdamW(filter(lambda p: p.requires_grad, [*model.parameters(), *conv.parameters()]), lr=5e-2)
ids, y, img = torch.randint(11, (5, 7)), torch.randint(4, (5, 7)), torch.randn(2, 1, 6, 6)
losses = []
for i in range(10):
    loss = F.cross_entropy(model(ids).transpose(1, 2), y) + conv(img).tanh().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
before = model(ids)
model.eval()
after = model(ids)
buf = io.BytesIO()
torch.save(lora_state_dict(model), buf)
buf.seek(0)
missing = model.load_state_dict(torch.load(buf), strict=False)
print(missing.missing_keys, missing.unexpected_keys)
model.train()
outputs = {
    "losses": losses,
    "same": torch.allclose(before, after, atol=1e-5),
    "A": model[1].lora_A,
    "Bg": model[0].lora_B.grad,
    "w": model[1].weight,
    "c": conv.lora_B,
}
