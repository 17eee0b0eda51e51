"""siamese_network and super_resolution of pytorch/examples, fast_neural_style's layers."""

import torch, torch.nn as nn, torch.nn.functional as F, torch.nn.init as init

torch.manual_seed(0)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(4 * 9 * 2, 8), nn.ReLU(inplace=True), nn.Linear(8, 1))
        self.sigmoid = nn.Sigmoid()
        self.c.apply(self.init_weights)
        self.fc.apply(self.init_weights)

    def init_weights(self, m):
        if isinstance(m, nn.Linear):
            torch.nn.init.xavier_uniform_(m.weight)
            m.bias.data.fill_(0.01)

    def forward(self, a, b):
        return self.sigmoid(self.fc(torch.cat((self.c(a), self.c(b)), 1)))


class SR(nn.Module):
    def __init__(self, r):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 6, (5, 5), (1, 1), (2, 2))
        self.conv4 = nn.Conv2d(6, r**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(r)
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv4.weight)

    def forward(self, x):
        return self.pixel_shuffle(self.conv4(self.relu(self.conv1(x))))


class ConvLayer(nn.Module):
    def __init__(self, i, o, k, s):
        super().__init__()
        self.pad = nn.ReflectionPad2d(k // 2)
        self.conv = nn.Conv2d(i, o, k, s)

    def forward(self, x):
        return self.conv(self.pad(x))


class Up(nn.Module):
    def __init__(self, i, o, k, s, up=None):
        super().__init__()
        self.up = up
        self.pad = nn.ReflectionPad2d(k // 2)
        self.conv = nn.Conv2d(i, o, k, s)
        self.inn = nn.InstanceNorm2d(o, affine=True)

    def forward(self, x):
        x = F.interpolate(x, mode="nearest", scale_factor=self.up) if self.up else x
        return F.relu(self.inn(self.conv(self.pad(x))))


ls = []
a, b = torch.randn(6, 1, 8, 8), torch.randn(6, 1, 8, 8)
s = Siamese()
o = torch.optim.Adadelta(s.parameters(), lr=1.0)
sch = torch.optim.lr_scheduler.StepLR(o, 1, gamma=0.7)
for _ in range(6):
    o.zero_grad()
    l = nn.BCELoss()(s(a, b).squeeze(), (torch.arange(6) % 2).float())
    l.backward()
    o.step()
    sch.step()
    ls.append(l.item())
sr = SR(2)
o = torch.optim.Adam(sr.parameters(), lr=0.01)
big = torch.rand(2, 1, 12, 12)
small = F.interpolate(big, scale_factor=0.5, mode="bicubic", align_corners=False)
for _ in range(6):
    o.zero_grad()
    l = nn.MSELoss()(sr(small), big)
    l.backward()
    o.step()
    ls.append(l.item())
st = nn.Sequential(
    ConvLayer(3, 4, 3, 1), nn.InstanceNorm2d(4, affine=True), nn.ReLU(), ConvLayer(4, 4, 3, 2), Up(4, 3, 3, 1, 2)
)
o = torch.optim.Adamax(st.parameters(), lr=0.01)
img = torch.rand(1, 3, 8, 8)
for _ in range(6):
    o.zero_grad()
    y = st(img)
    l = F.huber_loss(y, img) + 1e-2 * (torch.sum(torch.abs(y[:, :, :, :-1] - y[:, :, :, 1:])))
    l.backward()
    o.step()
    ls.append(l.item())
outputs = {"ls": ls}
