"""time_sequence_prediction: LSTM cells in double, LBFGS."""

import numpy as np, torch, torch.nn as nn, torch.optim as optim

np.random.seed(2)
torch.manual_seed(0)
x = np.empty((6, 20), "int64")
x[:] = np.array(range(20)) + np.random.randint(-80, 80, 6).reshape(6, 1)
data = np.sin(x / 1.0 / 20).astype("float64")


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 7)
        self.lstm2 = nn.LSTMCell(7, 7)
        self.linear = nn.Linear(7, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 7, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 7, dtype=torch.double)
        h2, c2 = torch.zeros_like(h_t), torch.zeros_like(c_t)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h2, c2 = self.lstm2(h_t, (h2, c2))
            output = self.linear(h2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h2, c2 = self.lstm2(h_t, (h2, c2))
            output = self.linear(h2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


inp, tgt = torch.from_numpy(data[:, :-1]), torch.from_numpy(data[:, 1:])
seq = Sequence()
seq.double()
crit = nn.MSELoss()
opt = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=4)
ls = []
for i in range(2):

    def closure():
        opt.zero_grad()
        loss = crit(seq(inp), tgt)
        ls.append(loss.item())
        loss.backward()
        return loss

    opt.step(closure)
with torch.no_grad():
    pred = seq(inp, future=5)
outputs = {"ls": ls, "pred": pred.detach().numpy()}
