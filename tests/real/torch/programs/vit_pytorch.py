"""A small vision transformer, values and gradients."""

import importlib.util
import sys
from types import ModuleType

import torch

# the package as a whole needs torchvision; this network does not
package = ModuleType("vit_pytorch")
package.__path__ = importlib.util.find_spec("vit_pytorch").submodule_search_locations
sys.modules["vit_pytorch"] = package
ViT = importlib.import_module("vit_pytorch.vit").ViT

torch.manual_seed(0)
model = ViT(image_size=16, patch_size=4, num_classes=5, dim=16, depth=2, heads=2, mlp_dim=32, dim_head=8)
image = torch.randn(2, 3, 16, 16)
logits = model(image)
loss = logits.square().mean()
loss.backward()
outputs = {"logits": logits, "norms": torch.stack([p.grad.norm() for p in model.parameters()])}
