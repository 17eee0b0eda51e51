"""The variational autoencoder of pytorch/examples."""

import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 16)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, lv = self.encode(x.view(-1, 16))
        return self.decode(self.reparameterize(mu, lv)), mu, lv


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
x = torch.rand(32, 1, 4, 4)
for step in range(40):
    optimizer.zero_grad()
    r, mu, lv = model(x)
    loss = F.binary_cross_entropy(r, x.view(-1, 16), reduction="sum") - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
outputs = {"losses": losses}
