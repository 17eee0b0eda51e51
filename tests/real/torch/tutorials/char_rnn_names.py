"""Classifying names with a character-level RNN: PyTorch's tutorial, with a handful of names."""

import math, random, string, unicodedata
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
random.seed(0)
allowed = string.ascii_letters + " .,;'" + "_"
n_letters = len(allowed)
data = {
    "Italian": ["Abate", "Albani", "Basso", "Rossi"],
    "German": ["Abel", "Bach", "Schmidt", "Koch"],
    "Irish": ["Adam", "Ahearn", "O'Brien", "Kelly"],
}


def to_ascii(s):
    return "".join(c for c in unicodedata.normalize("NFD", s) if unicodedata.category(c) != "Mn" and c in allowed)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, n_letters)
    for li, letter in enumerate(line):
        tensor[li][0][allowed.find(letter)] = 1
    return tensor


class CharRNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.rnn = nn.RNN(input_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, line_tensor):
        rnn_out, hidden = self.rnn(line_tensor)
        return self.softmax(self.h2o(hidden[0]))


labels = list(data)
examples = [
    (line_to_tensor(to_ascii(n)), torch.tensor([labels.index(l)], dtype=torch.long)) for l in labels for n in data[l]
]
rnn = CharRNN(n_letters, 16, len(labels))
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.15)
criterion = nn.NLLLoss()
losses = []
for it in range(12):
    random.shuffle(examples)
    rnn.train()
    rnn.zero_grad()
    batch_loss = 0
    for text, label in examples[:6]:
        batch_loss += criterion(rnn.forward(text), label)
    batch_loss.backward()
    nn.utils.clip_grad_norm_(rnn.parameters(), 3)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(batch_loss.item() / 6)
outputs = {"losses": losses, "w": rnn.h2o.weight}
