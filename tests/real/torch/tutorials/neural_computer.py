"""A differentiable neural computer: addressing by content, usage sorted into an allocation, and temporal links."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class DNC(nn.Module):
    def __init__(self, slots=5, width=3, reads=2, hidden=8):
        super().__init__()
        self.slots, self.width, self.reads, self.hidden = slots, width, reads, hidden
        self.controller = nn.LSTMCell(2 + reads * width, hidden)
        self.sizes = [width * reads, reads, width, 1, width, width, reads, 1, 1, 3 * reads]
        self.interface = nn.Linear(hidden, sum(self.sizes))
        self.output = nn.Linear(hidden + reads * width, 2)

    def forward(self, xs):
        b, n, w, r = xs.shape[1], self.slots, self.width, self.reads
        h = c = xs.new_zeros(b, self.hidden)
        memory = xs.new_zeros(b, n, w) + 1e-6
        usage, precedence, written = xs.new_zeros(b, n), xs.new_zeros(b, n), xs.new_zeros(b, n)
        links, read_weights, read = xs.new_zeros(b, n, n), xs.new_zeros(b, r, n), xs.new_zeros(b, r * w)
        ys = []
        for x in xs:
            h, c = self.controller(torch.cat((x, read), -1), (h, c))
            rk, rs, wk, ws, erase, v, free, alloc, gate, modes = self.interface(h).split(self.sizes, -1)
            rk, rs, ws = rk.view(b, r, w), 1 + F.softplus(rs), 1 + F.softplus(ws)
            alloc, gate, modes = alloc.sigmoid(), gate.sigmoid(), modes.view(b, r, 3).softmax(-1)
            retention = (1 - free.sigmoid().view(b, r, 1) * read_weights).prod(1)
            usage = (usage + written - usage * written) * retention
            ordered, order = torch.sort(usage, dim=1)
            before = torch.cumprod(torch.cat([torch.ones_like(ordered[:, :1]), ordered[:, :-1]], 1), 1)
            allocation = torch.zeros_like(usage).scatter_(1, order, (1 - ordered) * before)
            content = F.softmax(ws * F.cosine_similarity(memory, wk.unsqueeze(1), dim=-1), -1)
            written = gate * (alloc * allocation + (1 - alloc) * content)
            memory = memory * (1 - written.unsqueeze(2) * erase.sigmoid().unsqueeze(1))
            memory = memory + written.unsqueeze(2) * v.unsqueeze(1)
            wi, wj = written.unsqueeze(2), written.unsqueeze(1)
            links = ((1 - wi - wj) * links + wi * precedence.unsqueeze(1)) * (1 - torch.eye(n))
            precedence = (1 - written.sum(1, keepdim=True)) * precedence + written
            forward = torch.einsum("bij,brj->bri", links, read_weights)
            backward = torch.einsum("bji,brj->bri", links, read_weights)
            similar = F.cosine_similarity(memory.unsqueeze(1), rk.unsqueeze(2), dim=-1)
            similar = F.softmax(rs.unsqueeze(-1) * similar, dim=-1)
            read_weights = modes[..., 0:1] * backward + modes[..., 1:2] * similar + modes[..., 2:3] * forward
            read = (read_weights @ memory).reshape(b, -1)
            ys.append(self.output(torch.cat((h, read), -1)))
        return torch.stack(ys)


torch.manual_seed(0)
model = DNC()
x = torch.randn(4, 2, 2)
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, alpha=0.95, eps=1e-3)
log = []
for _ in range(6):
    opt.zero_grad()
    loss = (model(x) - x.flip(0)).square().mean()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 10)
    opt.step()
    log.append(loss.item())
outputs = {"log": log, "y": model(x), "output": model.output.weight.grad, "interface": model.interface.weight}
