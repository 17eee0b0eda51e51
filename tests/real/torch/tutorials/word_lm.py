"""word_language_model: LSTM, GRU and Transformer with tied weights and repackaged hidden states."""

import math, torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(1111)


class RNNModel(nn.Module):
    def __init__(self, kind, ntoken, ninp, nhid, nlayers, tie):
        super().__init__()
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = (
            getattr(nn, kind)(ninp, nhid, nlayers)
            if kind in ("LSTM", "GRU")
            else nn.RNN(ninp, nhid, nlayers, nonlinearity="relu")
        )
        self.decoder = nn.Linear(nhid, ntoken)
        if tie:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.kind, self.nhid, self.nlayers, self.ntoken = kind, nhid, nlayers, ntoken

    def forward(self, i, h):
        o, h = self.rnn(self.drop(self.encoder(i)), h)
        d = self.decoder(self.drop(o)).view(-1, self.ntoken)
        return F.log_softmax(d, dim=1), h

    def init_hidden(self, b):
        w = next(self.parameters())
        z = lambda: w.new_zeros(self.nlayers, b, self.nhid)
        return (z(), z()) if self.kind == "LSTM" else z()


def repackage(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage(v) for v in h)


class PositionalEncoding(nn.Module):
    def __init__(self, d, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d)
        p = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        t = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        pe[:, 0::2] = torch.sin(p * t)
        pe[:, 1::2] = torch.cos(p * t)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return x + self.pe[: x.size(0), :]


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers):
        super().__init__(d_model=ninp, nhead=nhead, dim_feedforward=nhid, num_encoder_layers=nlayers, dropout=0.0)
        self.src_mask = None
        self.pos = PositionalEncoding(ninp)
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.ninp = ninp
        self.dec = nn.Linear(ninp, ntoken)

    def forward(self, s):
        m = torch.log(torch.tril(torch.ones(len(s), len(s))))
        o = self.encoder(self.pos(self.input_emb(s) * math.sqrt(self.ninp)), mask=m)
        return F.log_softmax(self.dec(o), dim=-1)


data = (torch.arange(60) * 7 % 13).view(5, 12).t().contiguous()
crit = nn.NLLLoss()
ls = []
for kind in ("LSTM", "GRU", "RNN"):
    m = RNNModel(kind, 13, 8, 8, 2, True)
    h = m.init_hidden(5)
    lr = 5.0
    for i in range(0, 10, 5):
        for _ in range(2):
            x, y = data[i : i + 5], data[i + 1 : i + 6].view(-1) if i + 6 <= 12 else data[i + 1 : i + 6].reshape(-1)
            m.zero_grad()
            h = repackage(h)
            o, h = m(x, h)
            l = crit(o, y)
            l.backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.25)
            for p in m.parameters():
                p.data.add_(p.grad, alpha=-lr)
            ls.append(l.item())
t = TransformerModel(13, 8, 2, 16, 2)
o = torch.optim.Adam(t.parameters(), lr=1e-3)
for _ in range(5):
    o.zero_grad()
    l = crit(t(data[:6]).view(-1, 13), data[1:7].reshape(-1))
    l.backward()
    o.step()
    ls.append(l.item())
outputs = {"ls": ls}
