"""The loss of a small diffusion model and its gradients."""

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

torch.manual_seed(0)
model = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
diffusion = GaussianDiffusion(model, image_size=16, timesteps=10)
images = torch.rand(2, 3, 16, 16)
loss = diffusion.p_losses(images, torch.tensor([3, 7]), noise=torch.randn(2, 3, 16, 16))
loss.backward()
norms = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None])
outputs = {"loss": loss, "norms": norms}
