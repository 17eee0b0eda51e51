"""DQN: replay memory, a target net that follows softly."""

import math, random
from collections import namedtuple, deque
import torch, torch.nn as nn, torch.optim as optim, torch.nn.functional as F

torch.manual_seed(0)
random.seed(0)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class DQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(3, 16)
        self.layer2 = nn.Linear(16, 16)
        self.layer3 = nn.Linear(16, 2)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


policy, target = DQN(), DQN()
target.load_state_dict(policy.state_dict())
optimizer = optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True)
memory = deque([], maxlen=100)
losses = []
for i in range(30):
    s = torch.tensor([[math.sin(i), math.cos(i), i / 30]], dtype=torch.float32)
    ns = None if i % 7 == 6 else s * 0.9 + 0.1
    memory.append(Transition(s, torch.tensor([[i % 2]], dtype=torch.long), ns, torch.tensor([float(i % 3)])))
    if len(memory) < 8:
        continue
    batch = Transition(*zip(*random.sample(memory, 8)))
    mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
    nns = torch.cat([s for s in batch.next_state if s is not None])
    sb, ab, rb = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
    q = policy(sb).gather(1, ab)
    nv = torch.zeros(8)
    with torch.no_grad():
        nv[mask] = target(nns).max(1).values
    loss = nn.SmoothL1Loss()(q, (nv * 0.99 + rb).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()
    losses.append(loss.item())
    tsd, psd = target.state_dict(), policy.state_dict()
    for key in psd:
        tsd[key] = psd[key] * 0.005 + tsd[key] * 0.995
    target.load_state_dict(tsd)
outputs = {"losses": losses, "t": target.layer3.weight}
