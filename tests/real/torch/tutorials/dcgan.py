"""DCGAN."""

import torch, torch.nn as nn

torch.manual_seed(999)
nz, ngf, ndf, nc = 6, 4, 4, 1


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


G = nn.Sequential(
    nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
    nn.BatchNorm2d(ngf * 2),
    nn.ReLU(True),
    nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
    nn.BatchNorm2d(ngf),
    nn.ReLU(True),
    nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
    nn.Tanh(),
)
D = nn.Sequential(
    nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
    nn.BatchNorm2d(ndf * 2),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
)
G.apply(weights_init)
D.apply(weights_init)
criterion = nn.BCELoss()
oD = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
oG = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
lossesD, lossesG = [], []
for i in range(6):
    D.zero_grad()
    real = torch.sin(torch.arange(4 * 256.0).view(4, 1, 16, 16) * (i + 1) * 0.01)
    label = torch.full((4,), 1.0, dtype=torch.float)
    errR = criterion(D(real).view(-1), label)
    errR.backward()
    noise = torch.randn(4, nz, 1, 1)
    fake = G(noise)
    label.fill_(0.0)
    errF = criterion(D(fake.detach()).view(-1), label)
    errF.backward()
    oD.step()
    G.zero_grad()
    label.fill_(1.0)
    errG = criterion(D(fake).view(-1), label)
    errG.backward()
    oG.step()
    lossesD.append((errR + errF).item())
    lossesG.append(errG.item())
outputs = {"D": lossesD, "G": lossesG, "running": D[3].running_mean}
