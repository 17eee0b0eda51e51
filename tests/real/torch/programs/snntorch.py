"""A spiking network with surrogate gradients, trained for some steps."""

import snntorch
import torch
from snntorch import functional, surrogate

torch.manual_seed(0)
spike = surrogate.fast_sigmoid(slope=25)
first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
leaky, last = (snntorch.Leaky(beta=0.9, spike_grad=spike) for _ in range(2))
x, targets = 3 * torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-2)


def spikes():
    """What the network emits in six steps of time."""
    hidden, out, emitted = leaky.init_leaky(), last.init_leaky(), []
    for _ in range(6):
        spike, hidden = leaky(first(x), hidden)
        spike, out = last(second(spike), out)
        emitted.append(spike)
    return torch.stack(emitted)


losses = []
for _ in range(4):
    optimizer.zero_grad()
    loss = functional.ce_rate_loss()(spikes(), targets)
    loss.backward()
    losses.append(loss.detach())
    optimizer.step()
outputs = {"losses": torch.stack(losses), "grad": first.weight.grad, "spikes": spikes()}
