"""A CRNN with CTC; greedy and prefix beam search; a seq2seq with beam search; CRF with Viterbi."""

import collections, math
import torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class BidirectionalLSTM(nn.Module):
    def __init__(self, nIn, nHidden, nOut):
        super().__init__()
        self.rnn = nn.LSTM(nIn, nHidden, bidirectional=True)
        self.embedding = nn.Linear(nHidden * 2, nOut)

    def forward(self, input):
        recurrent, _ = self.rnn(input)
        T, b, h = recurrent.size()
        t_rec = recurrent.view(T * b, h)
        return self.embedding(t_rec).view(T, b, -1)


class CRNN(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 4, 3, 1, 1),
            nn.ReLU(True),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(4, 8, 3, 1, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(True),
            nn.MaxPool2d((2, 2), (2, 1), (0, 1)),
            nn.Conv2d(8, 8, 2, 1, 0),
            nn.ReLU(True),
        )
        self.rnn = nn.Sequential(BidirectionalLSTM(8, 6, 6), BidirectionalLSTM(6, 6, n))

    def forward(self, x):
        conv = self.cnn(x)
        b, c, h, w = conv.size()
        assert h == 1, "the height of conv must be 1"
        return F.log_softmax(self.rnn(conv.squeeze(2).permute(2, 0, 1)), 2)


def prefix_beam_search(lp, k=4, blank=0):
    NEG = -float("inf")
    lse = lambda *a: NEG if all(x == NEG for x in a) else (max(a) + math.log(sum(math.exp(x - max(a)) for x in a)))
    beam = [(tuple(), (0.0, NEG))]
    for t in range(lp.shape[0]):
        nxt = collections.defaultdict(lambda: (NEG, NEG))
        for s in range(lp.shape[1]):
            p = lp[t, s].item()
            for prefix, (pb, pnb) in beam:
                if s == blank:
                    nb, nnb = nxt[prefix]
                    nxt[prefix] = (lse(nb, pb + p, pnb + p), nnb)
                    continue
                end = prefix[-1] if prefix else None
                np_ = prefix + (s,)
                nb, nnb = nxt[np_]
                nxt[np_] = (nb, lse(nnb, pb + p, pnb + p) if s != end else lse(nnb, pb + p))
                if s == end:
                    nb, nnb = nxt[prefix]
                    nxt[prefix] = (nb, lse(nnb, pnb + p))
        beam = sorted(nxt.items(), key=lambda x: lse(*x[1]), reverse=True)[:k]
    return beam[0][0], -lse(*beam[0][1])


class CRF(nn.Module):
    def __init__(self, K):
        super().__init__()
        self.start, self.end, self.trans = (nn.Parameter(torch.empty(*s)) for s in ((K,), (K,), (K, K)))
        for p in self.parameters():
            nn.init.uniform_(p, -0.1, 0.1)

    def forward(self, em, tags, mask):
        S, B = tags.shape
        ar = torch.arange(B)
        score = self.start[tags[0]] + em[0, ar, tags[0]]
        m = mask.type_as(em)
        for i in range(1, S):
            score += self.trans[tags[i - 1], tags[i]] * m[i]
            score += em[i, ar, tags[i]] * m[i]
        ends = mask.long().sum(dim=0) - 1
        score += self.end[tags[ends, ar]]
        alpha = self.start + em[0]
        for i in range(1, S):
            nxt = torch.logsumexp(alpha.unsqueeze(2) + self.trans + em[i].unsqueeze(1), dim=1)
            alpha = torch.where(mask[i].unsqueeze(1), nxt, alpha)
        return (score - torch.logsumexp(alpha + self.end, dim=1)).sum()

    def decode(self, em, mask):
        score, hist = self.start + em[0], []
        for i in range(1, len(em)):
            nxt, idx = (score.unsqueeze(2) + self.trans + em[i].unsqueeze(1)).max(dim=1)
            score = torch.where(mask[i].unsqueeze(1), nxt, score)
            hist.append(idx)
        score += self.end
        out = []
        for b, e in enumerate((mask.long().sum(0) - 1).tolist()):
            _, best = score[b].max(dim=0)
            tags = [best.item()]
            for h in reversed(hist[:e]):
                best = h[b][tags[-1]]
                tags.append(best.item())
            out.append(tags[::-1])
        return out


class Seq2Seq(nn.Module):
    def __init__(self, V, H):
        super().__init__()
        self.emb = nn.Embedding(V, H, padding_idx=0)
        self.enc, self.dec = nn.GRU(H, H, batch_first=True, num_layers=2, dropout=0.0), nn.GRUCell(2 * H, H)
        self.att, self.out = nn.Bilinear(H, H, 1), nn.Linear(H, V)

    def encode(self, src, lens):
        packed = pack_padded_sequence(self.emb(src), lens, batch_first=True, enforce_sorted=False)
        o, h = self.enc(packed)
        return pad_packed_sequence(o, batch_first=True, padding_value=0.0)[0], h[-1]

    def step(self, tok, h, mem, mask):
        a = self.att(h.unsqueeze(1).expand_as(mem).contiguous(), mem).squeeze(-1).masked_fill(~mask, -1e9).softmax(-1)
        h = self.dec(torch.cat([self.emb(tok), torch.bmm(a.unsqueeze(1), mem).squeeze(1)], -1), h)
        return F.log_softmax(self.out(h), -1), h

    @torch.no_grad()
    def beam(self, src, lens, k=3, T=6):
        mem, h = self.encode(src, lens)
        V = self.out.out_features
        B = len(src)
        mem, h, mask = mem.repeat_interleave(k, 0), h.repeat_interleave(k, 0), (src != 0).repeat_interleave(k, 0)
        scores = torch.tensor([0.0] + [-1e9] * (k - 1)).repeat(B, 1)
        toks = torch.full((B, k, 1), 1)
        for t in range(T):
            lp, h = self.step(toks[:, :, -1].reshape(-1), h, mem, mask)
            done = toks[:, :, -1].eq(2)
            lp = lp.view(B, k, V).masked_fill(done.unsqueeze(-1), -1e9)
            lp[..., 2].masked_fill_(done, 0.0)
            cand = (scores.unsqueeze(-1) + lp).view(B, -1)
            scores, idx = cand.topk(k, dim=-1)
            src_beam = torch.div(idx, V, rounding_mode="floor")
            toks = torch.cat(
                [toks.gather(1, src_beam.unsqueeze(-1).expand(-1, -1, toks.size(-1))), (idx % V).unsqueeze(-1)], -1
            )
            h = h.view(B, k, -1)[torch.arange(B).unsqueeze(1), src_beam].view(B * k, -1)
        return toks[:, 0], scores[:, 0]


torch.manual_seed(0)
crnn, crf, s2s = CRNN(5), CRF(4), Seq2Seq(9, 8)
em_net = nn.LSTM(3, 2, bidirectional=True)
ctc = nn.CTCLoss(zero_infinity=True)
opt = torch.optim.Adadelta([*crnn.parameters(), *crf.parameters(), *s2s.parameters(), *em_net.parameters()], lr=0.5)
img, tgt, tl = torch.randn(3, 1, 8, 16), torch.tensor([1, 2, 2, 3, 4, 1]), torch.tensor([3, 2, 1])
xs, tags = torch.randn(6, 3, 3), torch.randint(4, (6, 3))
mask = torch.arange(6).unsqueeze(1) < torch.tensor([6, 4, 2])
src = pad_sequence([torch.tensor([3, 4, 5, 6, 2]), torch.tensor([7, 8, 2]), torch.tensor([5, 2])], batch_first=True)
lens = torch.tensor([5, 3, 2])
log = []
for it in range(6):
    lp = crnn(img)
    l1 = ctc(lp, tgt, torch.full((3,), lp.size(0), dtype=torch.long), tl)
    l2 = -crf(em_net(xs)[0], tags, mask)
    mem, h = s2s.encode(src, lens)
    m, tok, l3 = src != 0, torch.full((3,), 1), 0
    for t in range(src.size(1)):
        o, h = s2s.step(tok, h, mem, m)
        l3 = l3 + F.nll_loss(o, src[:, t], ignore_index=0)
        tok = src[:, t] if it % 2 else o.argmax(-1)
    loss = l1 + l2 + l3
    opt.zero_grad()
    loss.backward()
    opt.step()
    log.append([l1.item(), l2.item(), l3.item()])
toks, sc = s2s.beam(src, lens)
outputs = {"log": log, "toks": toks, "sc": sc, "trans": crf.trans.grad, "emb": s2s.emb.weight.grad}
