"""The older character-level RNN, cell by cell, and generating names."""

import torch, torch.nn as nn, random

torch.manual_seed(1)
random.seed(1)
n = 8


class RNN(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.hidden_size = h
        self.i2h = nn.Linear(3 + i + h, h)
        self.i2o = nn.Linear(3 + i + h, o)
        self.o2o = nn.Linear(h + o, o)
        self.dropout = nn.Dropout(0.0)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, category, input, hidden):
        c = torch.cat((category, input, hidden), 1)
        hidden = self.i2h(c)
        output = self.i2o(c)
        output = self.o2o(torch.cat((hidden, output), 1))
        return self.softmax(self.dropout(output)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


rnn = RNN(n, 12, n)
criterion = nn.NLLLoss()
lr = 0.05
losses = []
for step in range(15):
    cat = torch.zeros(1, 3)
    cat[0][step % 3] = 1
    line = [random.randrange(n) for _ in range(5)]
    inp = torch.zeros(len(line), 1, n)
    for li, ch in enumerate(line):
        inp[li][0][ch] = 1
    target = torch.LongTensor(line[1:] + [n - 1])
    target.unsqueeze_(-1)
    hidden = rnn.initHidden()
    rnn.zero_grad()
    loss = torch.Tensor([0])
    for i in range(inp.size(0)):
        output, hidden = rnn(cat, inp[i], hidden)
        loss += criterion(output, target[i])
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-lr)
    losses.append(loss.item() / inp.size(0))
with torch.no_grad():
    topv, topi = output.topk(1)
outputs = {"losses": losses, "top": topi, "cat": cat}
