"""Filters, colours, warps, and their gradients."""

import kornia
import torch

torch.manual_seed(0)
image = torch.rand(1, 3, 16, 16, requires_grad=True)
blurred = kornia.filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5))
edges = kornia.filters.sobel(blurred)
grey = kornia.color.rgb_to_grayscale(image)
turned = kornia.geometry.transform.rotate(image, torch.tensor([20.0]))
lab = kornia.color.rgb_to_hsv(image)
loss = edges.mean() + grey.square().mean() + turned.square().mean()
loss.backward()
outputs = {"edges": edges, "grey": grey, "turned": turned, "hsv": lab, "grad": image.grad}
