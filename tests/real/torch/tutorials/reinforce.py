"""REINFORCE and actor-critic of pytorch/examples, on a cart that is written out."""

import math, random
from collections import deque, namedtuple
import torch, torch.nn as nn, torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(543)
random.seed(0)


class Cart:
    def reset(self):
        self.s = [0.01, 0.02, 0.03, -0.01]
        self.t = 0
        return self.s

    def step(self, a):
        x, v, th, w = self.s
        f = 10.0 if a == 1 else -10.0
        tmp = (f + 0.05 * w * w * math.sin(th)) / 1.1
        ta = (9.8 * math.sin(th) - math.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * math.cos(th) ** 2 / 1.1))
        xa = tmp - 0.05 * ta * math.cos(th) / 1.1
        self.s = [x + 0.02 * v, v + 0.02 * xa, th + 0.02 * w, w + 0.02 * ta]
        self.t += 1
        return self.s, 1.0, abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.2095 or self.t >= 30


SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
eps = torch.finfo(torch.float32).eps
env = Cart()
losses = []
for ep in range(5):
    s = env.reset()
    while True:
        probs, value = model(torch.from_numpy(__import__("numpy").array(s)).float())
        m = Categorical(probs)
        a = torch.tensor(int(probs[1] > probs[0]) if env.t % 3 else env.t % 2)
        model.saved_actions.append(SavedAction(m.log_prob(a), value))
        s, r, done = env.step(a.item())
        model.rewards.append(r)
        if done:
            break
    R = 0
    pl, vl, returns = [], [], deque()
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    for (lp, v), R in zip(model.saved_actions, returns):
        adv = R - v.item()
        pl.append(-lp * adv)
        vl.append(F.smooth_l1_loss(v, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(pl).sum() + torch.stack(vl).sum()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    del model.rewards[:]
    del model.saved_actions[:]
outputs = {"losses": losses, "w": model.affine1.weight}
