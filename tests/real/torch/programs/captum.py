"""Attributions of a small model."""

import torch
from captum.attr import DeepLift, IntegratedGradients, Saliency

torch.manual_seed(123)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)).eval()
inputs, baseline = torch.rand(2, 3), torch.zeros(2, 3)
attributions, delta = IntegratedGradients(model).attribute(inputs, baseline, target=0, return_convergence_delta=True)
outputs = {
    "integrated": attributions,
    "delta": delta,
    "saliency": Saliency(model).attribute(inputs.clone(), target=1),
    "deeplift": DeepLift(model).attribute(inputs.clone(), baseline, target=0),
}
