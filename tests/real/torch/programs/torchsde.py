"""An SDE with given noise, and the gradient through its solution."""

import torch
import torchsde

torch.manual_seed(0)


class SDE(torch.nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self):
        super().__init__()
        self.mu = torch.nn.Linear(3, 3)
        self.sigma = torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.mu(y)

    def g(self, t, y):
        return self.sigma(y).sigmoid()


sde = SDE()
start = torch.full((4, 3), 0.1, requires_grad=True)
times = torch.linspace(0, 1, 5)
noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=7, dt=0.05)
path = torchsde.sdeint(sde, start, times, bm=noise, method="euler", dt=0.05)
path.square().mean().backward()
outputs = {"path": path, "start": start.grad, "weight": sde.mu.weight.grad}
