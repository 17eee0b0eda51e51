"""A llama with rotary embeddings, grouped-query attention, kv cache, temperature and top-p."""

import math
from dataclasses import dataclass
from typing import Optional, Tuple
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 16
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: Optional[int] = 2
    vocab_size: int = 19
    multiple_of: int = 4
    norm_eps: float = 1e-5
    max_batch_size: int = 3
    max_seq_len: int = 24


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, device=freqs.device)
    freqs = torch.outer(t, freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


def reshape_for_broadcast(freqs_cis: torch.Tensor, x: torch.Tensor):
    ndim = x.ndim
    assert 0 <= 1 < ndim
    assert freqs_cis.shape == (x.shape[1], x.shape[-1])
    shape = [d if i == 1 or i == ndim - 1 else 1 for i, d in enumerate(x.shape)]
    return freqs_cis.view(*shape)


def apply_rotary_emb(xq, xk, freqs_cis) -> Tuple[torch.Tensor, torch.Tensor]:
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = reshape_for_broadcast(freqs_cis, xq_)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_kv_heads = args.n_kv_heads
        self.n_heads, self.hd = args.n_heads, args.dim // args.n_heads
        self.n_rep = self.n_heads // self.n_kv_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(args.n_heads * self.hd, args.dim, bias=False)
        self.cache_k = torch.zeros((args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.hd))
        self.cache_v = torch.zeros((args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.hd))

    def forward(self, x, start_pos, freqs_cis, mask, cache):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, self.n_heads, self.hd)
        xk = xk.view(bsz, seqlen, self.n_kv_heads, self.hd)
        xv = xv.view(bsz, seqlen, self.n_kv_heads, self.hd)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)
        if cache:
            self.cache_k = self.cache_k.to(xq)
            self.cache_v = self.cache_v.to(xq)
            self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
            self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
            keys, values = self.cache_k[:bsz, : start_pos + seqlen], self.cache_v[:bsz, : start_pos + seqlen]
        else:
            keys, values = xk, xv
        keys, values = repeat_kv(keys, self.n_rep), repeat_kv(values, self.n_rep)
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.hd)
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class Block(nn.Module):
    def __init__(self, layer_id, args):
        super().__init__()
        hidden = int(2 * 4 * args.dim / 3)
        hidden = args.multiple_of * ((hidden + args.multiple_of - 1) // args.multiple_of)
        self.attention = Attention(args)
        self.w1, self.w2, self.w3 = (
            nn.Linear(args.dim, hidden, bias=False),
            nn.Linear(hidden, args.dim, bias=False),
            nn.Linear(args.dim, hidden, bias=False),
        )
        self.n1, self.n2 = RMSNorm(args.dim, args.norm_eps), RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, *a):
        h = x + self.attention(self.n1(x), *a)
        y = self.n2(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.tok = nn.Embedding(p.vocab_size, p.dim)
        self.layers = torch.nn.ModuleList()
        for i in range(p.n_layers):
            self.layers.append(Block(i, p))
        self.norm, self.output = RMSNorm(p.dim), nn.Linear(p.dim, p.vocab_size, bias=False)
        self.freqs_cis = precompute_freqs_cis(p.dim // p.n_heads, p.max_seq_len * 2)

    def forward(self, tokens, start_pos=0, cache=True):
        _bsz, seqlen = tokens.shape
        h = self.tok(tokens)
        self.freqs_cis = self.freqs_cis.to(h.device)
        freqs_cis = self.freqs_cis[start_pos : start_pos + seqlen]
        mask = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1)
            mask = torch.hstack([torch.zeros((seqlen, start_pos)), mask]).type_as(h)
        for layer in self.layers:
            h = layer(h, start_pos, freqs_cis, mask, cache)
        return self.output(self.norm(h)).float()


def sample_top_p(probs, p):
    probs_sort, probs_idx = torch.sort(probs, dim=-1, descending=True)
    probs_sum = torch.cumsum(probs_sort, dim=-1)
    mask = probs_sum - probs_sort > p
    probs_sort[mask] = 0.0
    probs_sort.div_(probs_sort.sum(dim=-1, keepdim=True))
    next_token = torch.multinomial(probs_sort, num_samples=1)
    return torch.gather(probs_idx, -1, next_token)


@torch.inference_mode()
def generate(model, prompts, n, temperature, top_p=0.9, pad=0):
    total = min(24, n + max(len(t) for t in prompts))
    tokens = torch.full((len(prompts), total), pad, dtype=torch.long)
    for k, t in enumerate(prompts):
        tokens[k, : len(t)] = torch.tensor(t, dtype=torch.long)
    prev_pos, eos = 0, torch.tensor([False] * len(prompts))
    text_mask = tokens != pad
    logp = torch.zeros_like(tokens, dtype=torch.float)
    for cur in range(min(len(t) for t in prompts), total):
        logits = model.forward(tokens[:, prev_pos:cur], prev_pos)
        nxt = (
            sample_top_p(torch.softmax(logits[:, -1] / temperature, dim=-1), top_p)
            if temperature > 0
            else torch.argmax(logits[:, -1], dim=-1)
        )
        nxt = torch.where(text_mask[:, cur], tokens[:, cur], nxt.reshape(-1))
        tokens[:, cur] = nxt
        logp[:, prev_pos + 1 : cur + 1] = -F.cross_entropy(
            input=logits.transpose(1, 2), target=tokens[:, prev_pos + 1 : cur + 1], reduction="none", ignore_index=pad
        )
        eos |= (~text_mask[:, cur]) & (nxt == 18)
        prev_pos = cur
        if all(eos):
            break
    return tokens, logp


torch.manual_seed(0)
model = Llama(ModelArgs())
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=False)
data = (torch.arange(60)[None] * torch.tensor([[1], [2], [3]])) % 17 + 1
losses = []
for i in range(8):
    chunk = data[:, i % 20 : i % 20 + 13]
    logits = model(chunk[:, :-1], 0, cache=False)
    loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
t1, lp = generate(model, [[1, 2, 3], [2, 4, 6, 8], [3, 6]], 8, 0.0)
t2, _ = generate(model, [[1, 2, 3], [2, 4, 6, 8]], 8, 0.8)
outputs = {"losses": losses, "t1": t1, "lp": lp, "t2": t2}
