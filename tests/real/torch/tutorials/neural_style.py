"""Neural style transfer: inserted loss layers, LBFGS with a closure, clamping in place."""

import torch, torch.nn as nn, torch.nn.functional as F, torch.optim as optim, copy

torch.manual_seed(0)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, i):
        self.loss = F.mse_loss(i, self.target)
        return i


def gram_matrix(i):
    a, b, c, d = i.size()
    f = i.view(a * b, c * d)
    return torch.mm(f, f.t()).div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, t):
        super().__init__()
        self.target = gram_matrix(t).detach()

    def forward(self, i):
        self.loss = F.mse_loss(gram_matrix(i), self.target)
        return i


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


cnn = nn.Sequential(
    nn.Conv2d(3, 4, 3, padding=1),
    nn.ReLU(inplace=True),
    nn.Conv2d(4, 6, 3, padding=1),
    nn.ReLU(inplace=True),
    nn.MaxPool2d(2),
).eval()
content, style = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
model = nn.Sequential(Normalization([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
cl, sl, i = [], [], 0
for layer in cnn.children():
    if isinstance(layer, nn.Conv2d):
        i += 1
        name = f"conv_{i}"
    elif isinstance(layer, nn.ReLU):
        name = f"relu_{i}"
        layer = nn.ReLU(inplace=False)
    else:
        name = f"pool_{i}"
    model.add_module(name, layer)
    if name == "conv_2":
        t = model(content).detach()
        c = ContentLoss(t)
        model.add_module("content", c)
        cl.append(c)
    if name.startswith("conv"):
        t = model(style).detach()
        s = StyleLoss(t)
        model.add_module(f"style_{i}", s)
        sl.append(s)
inp = content.clone()
inp.requires_grad_(True)
model.eval()
model.requires_grad_(False)
optimizer = optim.LBFGS([inp])
run = [0]
losses = []
while run[0] <= 40:

    def closure():
        with torch.no_grad():
            inp.clamp_(0, 1)
        optimizer.zero_grad()
        model(inp)
        ss = 0
        cs = 0
        for s in sl:
            ss += s.loss
        for c in cl:
            cs += c.loss
        ss *= 1000
        cs *= 1
        loss = ss + cs
        loss.backward()
        run[0] += 1
        losses.append(loss.item())
        return ss + cs

    optimizer.step(closure)
with torch.no_grad():
    inp.clamp_(0, 1)
outputs = {"losses": losses[:20]}
