"""A small network of the collection, values and gradients."""

import timm
import torch

torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=4).eval()
image = torch.randn(2, 3, 32, 32)
logits = model(image)
logits.square().mean().backward()
outputs = {"logits": logits, "grad": model.fc.weight.grad, "stem": model.conv1[0].weight.grad}
