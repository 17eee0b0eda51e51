"""Translation with a sequence to sequence network and attention."""

import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import TensorDataset, DataLoader, RandomSampler

torch.manual_seed(0)
MAX, SOS, V, H = 5, 0, 11, 8


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.0):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.Wa = nn.Linear(h, h)
        self.Ua = nn.Linear(h, h)
        self.Va = nn.Linear(h, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, h, out):
        super().__init__()
        self.embedding = nn.Embedding(out, h)
        self.attention = BahdanauAttention(h)
        self.gru = nn.GRU(2 * h, h, batch_first=True)
        self.out = nn.Linear(h, out)

    def forward(self, enc_out, enc_hidden, target=None):
        b = enc_out.size(0)
        inp = torch.empty(b, 1, dtype=torch.long).fill_(SOS)
        hid = enc_hidden
        outs, atts = [], []
        for i in range(MAX):
            o, hid, a = self.forward_step(inp, hid, enc_out)
            outs.append(o)
            atts.append(a)
            if target is not None:
                inp = target[:, i].unsqueeze(1)
            else:
                _, topi = o.topk(1)
                inp = topi.squeeze(-1).detach()
        outs = torch.cat(outs, dim=1)
        return F.log_softmax(outs, dim=-1), hid, torch.cat(atts, dim=1)

    def forward_step(self, inp, hid, enc):
        e = self.embedding(inp)
        q = hid.permute(1, 0, 2)
        ctx, w = self.attention(q, enc)
        o, hid = self.gru(torch.cat((e, ctx), dim=2), hid)
        return self.out(o), hid, w


ids = torch.arange(40).reshape(8, 5) % V
loader = DataLoader(TensorDataset(ids, (ids * 3) % V), batch_size=4)
enc, dec = EncoderRNN(V, H), AttnDecoderRNN(H, V)
eo, do = torch.optim.Adam(enc.parameters(), lr=0.01), torch.optim.Adam(dec.parameters(), lr=0.01)
crit = nn.NLLLoss()
losses = []
for epoch in range(4):
    for x, y in loader:
        eo.zero_grad()
        do.zero_grad()
        out, h = enc(x)
        dout, _, _ = dec(out, h, y)
        loss = crit(dout.view(-1, dout.size(-1)), y.view(-1))
        loss.backward()
        eo.step()
        do.step()
        losses.append(loss.item())
with torch.no_grad():
    out, h = enc(ids[:1])
    d, _, att = dec(out, h)
    _, topi = d.topk(1)
outputs = {"losses": losses, "att": att, "ids": topi.squeeze()}
