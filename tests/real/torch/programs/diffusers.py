"""A small diffusion model and an autoencoder, trained for two steps, and steps of three schedulers."""

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, DPMSolverMultistepScheduler, UNet2DModel

torch.manual_seed(0)
network = UNet2DModel(
    sample_size=8,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
)
coder = AutoencoderKL(block_out_channels=(4,), norm_num_groups=2, latent_channels=2, sample_size=8)
images, noise, times = torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8), torch.tensor([3, 40])
noisy = DDPMScheduler(num_train_timesteps=50).add_noise(images, noise, times)


def of_network():
    return torch.nn.functional.mse_loss(network(noisy, times).sample, noise)


def of_coder():
    posterior = coder.encode(images).latent_dist
    latent = posterior.sample(generator=torch.Generator().manual_seed(0))
    return (coder.decode(latent).sample - images).square().mean() + 1e-3 * posterior.kl().mean()


outputs = {}
for name, model, loss_of in (("network", network, of_network), ("coder", coder, of_coder)):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    outputs[name] = losses
for scheduler in (DDPMScheduler(), DDIMScheduler(), DPMSolverMultistepScheduler()):
    scheduler.set_timesteps(5)
    generator, sample = torch.Generator().manual_seed(0), images
    for time in scheduler.timesteps:
        sample = scheduler.step(torch.tanh(sample) / 2, time, sample, generator=generator).prev_sample
    outputs[type(scheduler).__name__] = sample
