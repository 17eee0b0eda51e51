"""A spatial transformer network."""

import os, torch
from torch import nn
import torch.nn.functional as F

STEPS = 10
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.localization = nn.Sequential(
            nn.Conv2d(1, 4, 5), nn.MaxPool2d(2, 2), nn.ReLU(True), nn.Conv2d(4, 6, 3), nn.MaxPool2d(2, 2), nn.ReLU(True)
        )
        self.fc_loc = nn.Sequential(nn.Linear(6 * 2 * 2, 16), nn.ReLU(True), nn.Linear(16, 6))
        self.fc_loc[2].weight.data.zero_()
        self.fc_loc[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
        self.conv1 = nn.Conv2d(1, 4, 5)
        self.drop = nn.Dropout2d()
        self.fc = nn.Linear(4 * 36, 10)

    def stn(self, x):
        xs = self.localization(x).view(-1, 24)
        theta = self.fc_loc(xs).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x):
        x = self.stn(x)
        x = F.relu(F.max_pool2d(self.drop(self.conv1(x)), 2))
        return F.log_softmax(self.fc(x.view(-1, 144)), dim=1)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(8, 1, 16, 16)
y = torch.randint(10, (8,))
losses = []
net.train()
for i in range(STEPS):
    opt.zero_grad()
    loss = F.nll_loss(net(x), y)
    loss.backward()
    opt.step()
    losses.append(loss.item())
th = torch.tensor([[[0.8, 0.2, 0.1], [-0.1, 0.9, 0.0]]], requires_grad=True)
found = {}
for mode in ("bilinear", "nearest", "bicubic"):
    for pm in ("zeros", "border", "reflection"):
        for ac in (True, False):
            im = x[:1].clone().requires_grad_()
            g = F.affine_grid(th, (1, 1, 7, 9), align_corners=ac)
            o = F.grid_sample(im, g, mode, pm, ac)
            found[mode, pm, ac] = (o, torch.autograd.grad(o.square().sum(), (im, th)))
g3 = F.affine_grid(torch.eye(3, 4)[None].requires_grad_(), (1, 2, 3, 4, 5), align_corners=False)
o3 = F.grid_sample(torch.randn(1, 2, 3, 4, 5), g3 * 0.9, align_corners=False)
ev = net.eval()(x)
outputs = {"losses": losses, "theta": net.fc_loc[2].bias, "eval": ev}
