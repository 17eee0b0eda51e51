"""Networks of public papers, written out small: each a training step in PyTorch's names, run by fgrad and by PyTorch.

``python -m tests.benchmarks.networks`` prints a table of all of them, each side in a process of its own: the first
step, the slowest later one, the first hundred together, the steady step (the median of the last twenty) and the most
memory.  Names choose networks; ``--steps 30`` measures fewer steps.  Times are of the processor (all threads), which
other work on the machine lengthens less than it does the wall's; ``--wall`` prints those.  ``--device cuda --wall``
runs both on a GPU, and ``--compile`` fgrad's step by ``torch.compile``.
"""

import argparse
import compileall
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.measured import Row, table
from tests.benchmarks.memory import peak_memory

ROOT = Path(__file__).resolve().parents[2]

Step = Callable[[], Any]


def _trained(torch: Any, model: Any, loss: Callable[[], Any]) -> Step:
    """A training step with SGD with momentum."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return step


def _classified(torch: Any, model: Any, *shape: int) -> Step:
    x, labels = torch.randn(*shape), torch.randint(0, 10, (shape[0],))
    return _trained(torch, model, lambda: torch.nn.functional.cross_entropy(model(x), labels))


def mobilenet(torch: Any) -> Step:
    """MobileNetV2 for small images, on 2x3x32x32: inverted residuals around depthwise convolutions.

    Source: Sandler et al., 2018, `arXiv:1801.04381 <https://arxiv.org/abs/1801.04381>`_.
    """
    nn = torch.nn

    def unit(before: int, after: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[Any]:
        convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(after), nn.ReLU6()]

    class Inverted(nn.Module):
        def __init__(self, before: int, after: int, stride: int, expansion: int):
            super().__init__()
            hidden = before * expansion
            layers = unit(before, hidden, 1) if expansion > 1 else []
            layers += unit(hidden, hidden, 3, stride, hidden)
            self.layers = nn.Sequential(*layers, nn.Conv2d(hidden, after, 1, bias=False), nn.BatchNorm2d(after))
            self.same = stride == 1 and before == after

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.same else self.layers(x)

    layers, width = unit(3, 32), 32
    for expansion, after, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(count):
            layers.append(Inverted(width, after, stride if i == 0 else 1, expansion))
            width = after
    layers += unit(width, 1280, 1)
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 10))
    return _classified(torch, model, 2, 3, 32, 32)


def resnet(torch: Any) -> Step:
    """ResNet18 on 2x3x64x64.

    Source: He et al., 2015, `arXiv:1512.03385 <https://arxiv.org/abs/1512.03385>`_.
    """
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
            self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
            self.relu = nn.ReLU(inplace=True)
            self.short = None
            if stride != 1 or before != after:
                self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x: Any) -> Any:
            kept = x if self.short is None else self.short(x)
            x = self.relu(self.bn1(self.conv1(x)))
            x = self.bn2(self.conv2(x))
            x += kept
            return self.relu(x)

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, after, stride), Block(after, after, 1)]
        width = after
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return _classified(torch, model, 2, 3, 64, 64)


def unet(torch: Any) -> Step:
    """A U-Net of four depths from 32 channels on, on 1x3x64x64, with transposed convolutions and group norms.

    Source: Ronneberger et al., 2015, `arXiv:1505.04597 <https://arxiv.org/abs/1505.04597>`_.
    """
    nn = torch.nn

    def double(before: int, after: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self, widths: tuple[int, ...]):
            super().__init__()
            self.down = nn.ModuleList([double(a, b) for a, b in zip((3, *widths), widths, strict=False)])
            pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
            self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs])
            self.joined = nn.ModuleList([double(2 * b, b) for _, b in pairs])
            self.last = nn.Conv2d(widths[0], 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for k, layer in enumerate(self.down):
                x = layer(x if k == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for up, joined, beside in zip(self.up, self.joined, kept[-2::-1], strict=True):
                x = joined(torch.cat([up(x), beside], 1))
            return self.last(x)

    model = UNet((32, 64, 128, 256, 512))
    x, target = torch.randn(1, 3, 64, 64), torch.randint(0, 2, (1, 64, 64))
    return _trained(torch, model, lambda: nn.functional.cross_entropy(model(x), target))


def vqvae(torch: Any) -> Step:
    """A VQ-VAE of 128 channels and 512 codes of 64 numbers, on 4x3x32x32.

    Source: van den Oord et al., 2017, `arXiv:1711.00937 <https://arxiv.org/abs/1711.00937>`_.
    """
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.ReLU(), nn.Conv2d(128, 32, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(32, 128, 1, bias=False)
            )

        def forward(self, x: Any) -> Any:
            return x + self.layers(x)

    class VQVAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.ReLU(),
                nn.Conv2d(128, 128, 3, padding=1), Residual(), Residual(), nn.ReLU(), nn.Conv2d(128, 64, 1),
            )  # fmt: skip
            self.codes = nn.Embedding(512, 64)
            self.decoder = nn.Sequential(
                nn.Conv2d(64, 128, 3, padding=1), Residual(), Residual(), nn.ReLU(),
                nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
            flat = z.view(-1, 64)
            table = self.codes.weight
            distances = (flat**2).sum(1, keepdim=True) + (table**2).sum(1) - 2 * flat @ table.t()
            nearest = self.codes(distances.argmin(1)).view(z.shape)
            lost = ((nearest.detach() - z) ** 2).mean() * 0.25 + ((nearest - z.detach()) ** 2).mean()
            passed = z + (nearest - z).detach()
            return self.decoder(passed.permute(0, 3, 1, 2).contiguous()), lost

    model, x = VQVAE(), torch.randn(4, 3, 32, 32)

    def loss() -> Any:
        again, lost = model(x)
        return nn.functional.mse_loss(again, x) + lost

    return _trained(torch, model, loss)


def glow(torch: Any) -> Step:
    """Two levels of four steps of Glow on 4x3x16x16: activation norms, invertible 1x1 convolutions, affine couplings.

    Source: Kingma and Dhariwal, 2018, `arXiv:1807.03039 <https://arxiv.org/abs/1807.03039>`_.
    """
    nn, functional = torch.nn, torch.nn.functional

    class FlowStep(nn.Module):
        def __init__(self, channels: int):
            super().__init__()
            self.shift, self.scale = (nn.Parameter(torch.zeros(1, channels, 1, 1)) for _ in range(2))
            self.mixing = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])
            self.net = nn.Sequential(
                nn.Conv2d(channels // 2, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 1), nn.ReLU(),
                nn.Conv2d(64, channels, 3, padding=1),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            places = x.shape[2] * x.shape[3]
            x = (x + self.shift) * torch.exp(self.scale)
            x = functional.conv2d(x, self.mixing[:, :, None, None])
            gained = places * (self.scale.sum() + torch.linalg.slogdet(self.mixing)[1])
            kept, changed = x.chunk(2, 1)
            shift, scale = self.net(kept).chunk(2, 1)
            scale = torch.sigmoid(scale + 2)
            return torch.cat([kept, (changed + shift) * scale], 1), gained + torch.log(scale).sum((1, 2, 3))

    def squeezed(x: Any) -> Any:
        b, c, h, w = x.shape
        return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, 4 * c, h // 2, w // 2)

    levels = nn.ModuleList([nn.ModuleList([FlowStep(c) for _ in range(4)]) for c in (12, 24)])
    x = torch.randn(4, 3, 16, 16)

    def likelihood(z: Any) -> Any:
        return -0.5 * (z**2 + math.log(2 * math.pi)).sum((1, 2, 3))

    def loss() -> Any:
        z, total = x, 0
        for i, level in enumerate(levels):
            z = squeezed(z)
            for step in level:
                z, gained = step(z)
                total = total + gained
            if i == 0:
                z, left = z.chunk(2, 1)
                total = total + likelihood(left)
        return -(total + likelihood(z)).mean() / x[0].numel()

    return _trained(torch, levels, loss)


def ddpm(torch: Any) -> Step:
    """The denoiser of DDPM, from 32 channels on, on 2x3x32x32, with attention at the lowest resolution.

    Source: Ho et al., 2020, `arXiv:2006.11239 <https://arxiv.org/abs/2006.11239>`_.
    """
    nn, functional = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, before: int, after: int):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(8, before), nn.Conv2d(before, after, 3, padding=1)
            self.time = nn.Linear(128, after)
            self.norm2, self.conv2 = nn.GroupNorm(8, after), nn.Conv2d(after, after, 3, padding=1)
            self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            h = self.conv1(functional.silu(self.norm1(x)))
            h = h + self.time(functional.silu(time))[:, :, None, None]
            return self.conv2(functional.silu(self.norm2(h))) + self.short(x)

    class Attention(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.norm = nn.GroupNorm(8, width)
            self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

        def forward(self, x: Any) -> Any:
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).view(b, 3, c, h * w).unbind(1)
            weights = torch.softmax(torch.einsum("bci,bcj->bij", q, k) / c**0.5, -1)
            return x + self.out(torch.einsum("bij,bcj->bci", weights, v).reshape(b, c, h, w))

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 128))
            self.first = nn.Conv2d(3, 32, 3, padding=1)
            self.down1, self.half1 = Residual(32, 32), nn.Conv2d(32, 32, 3, 2, 1)
            self.down2, self.half2 = Residual(32, 64), nn.Conv2d(64, 64, 3, 2, 1)
            self.mid1, self.attention, self.mid2 = Residual(64, 64), Attention(64), Residual(64, 64)
            self.twice = nn.Upsample(scale_factor=2, mode="nearest")
            self.up2, self.up1 = Residual(128, 32), Residual(64, 32)
            self.norm, self.last = nn.GroupNorm(8, 32), nn.Conv2d(32, 3, 3, padding=1)

        def forward(self, x: Any, t: Any) -> Any:
            rates = torch.exp(torch.arange(16) * (-math.log(10000) / 15))
            angles = t[:, None] * rates
            time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
            a = self.down1(self.first(x), time)
            b = self.down2(self.half1(a), time)
            c = self.mid2(self.attention(self.mid1(self.half2(b), time)), time)
            c = self.up2(torch.cat([self.twice(c), b], 1), time)
            c = self.up1(torch.cat([self.twice(c), a], 1), time)
            return self.last(functional.silu(self.norm(c)))

    model, x = Denoiser(), torch.randn(2, 3, 32, 32)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)

    def loss() -> Any:
        t = torch.randint(0, 1000, (2,))
        noise = torch.randn_like(x)
        share = kept[t][:, None, None, None]
        return functional.mse_loss(model(share.sqrt() * x + (1 - share).sqrt() * noise, t.float()), noise)

    return _trained(torch, model, loss)


def gpt(torch: Any) -> Step:
    """A GPT of four blocks of 128 units and 4 heads, on 4 sequences of 64 tokens.

    Source: Radford et al., 2019, `Language models are unsupervised multitask learners <https://openai.com/research/>`_.
    """
    nn, functional = torch.nn, torch.nn.functional
    width, heads, length, vocabulary = 128, 4, 64, 256

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(width, 2))
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // heads)
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            mixed = functional.softmax(scores, -1) @ v
            x = x + self.out(mixed.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.feed(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = GPT()
    tokens = torch.randint(0, vocabulary, (4, length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def step() -> Any:
        optimizer.zero_grad()
        scores = model(tokens[:, :-1])
        value = functional.cross_entropy(scores.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return value

    return step


def lstm(torch: Any) -> Step:
    """A language model with two layers of LSTM of 128 units, on 8 sequences of 32 tokens.

    Source: Zaremba et al., 2014, `arXiv:1409.2329 <https://arxiv.org/abs/1409.2329>`_.
    """
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.lstm = nn.Embedding(128, 64), nn.LSTM(64, 128, 2, batch_first=True)
            self.head = nn.Linear(128, 128)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.tokens(tokens))[0])

    model, tokens = Model(), torch.randint(0, 128, (8, 33))
    return _trained(
        torch,
        model,
        lambda: nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()),
    )


def neural_ode(torch: Any) -> Step:
    """A neural ODE of 64 units, integrated by twenty steps of Runge-Kutta, on 32 spirals.

    Source: Chen et al., 2018, `arXiv:1806.07366 <https://arxiv.org/abs/1806.07366>`_.
    """
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    start, target = torch.randn(32, 2), torch.randn(32, 2)

    def loss() -> Any:
        y, h = start, 0.05
        for _ in range(20):
            k1 = model(y)
            k2 = model(y + h / 2 * k1)
            k3 = model(y + h / 2 * k2)
            k4 = model(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return ((y - target) ** 2).mean()

    return _trained(torch, model, loss)


def svi(torch: Any) -> Step:
    """Stochastic variational inference of a Bayesian logistic regression, by ``torch.distributions``.

    Source: Kingma and Welling, 2013, `arXiv:1312.6114 <https://arxiv.org/abs/1312.6114>`_.
    """
    distributions = torch.distributions
    x, y = torch.randn(200, 10), torch.randint(0, 2, (200,)).float()
    mean, log_scale = torch.zeros(10, requires_grad=True), torch.zeros(10, requires_grad=True)
    prior = distributions.Normal(torch.zeros(10), torch.ones(10))
    optimizer = torch.optim.Adam([mean, log_scale], lr=0.01)

    def step() -> Any:
        optimizer.zero_grad()
        guide = distributions.Normal(mean, log_scale.exp())
        w = guide.rsample()
        fit = distributions.Bernoulli(logits=x @ w).log_prob(y).sum()
        value = -(fit + (prior.log_prob(w) - guide.log_prob(w)).sum())
        value.backward()
        optimizer.step()
        return value

    return step


def gaussian_process(torch: Any) -> Step:
    """The marginal likelihood of an exact Gaussian process on 100 points.

    Source: Rasmussen and Williams, 2006, equation 2.30.
    """
    x, y = torch.linspace(0, 1, 100)[:, None], torch.randn(100)
    length, scale, noise = (torch.tensor(v, requires_grad=True) for v in (-1.0, 0.0, -2.0))
    optimizer = torch.optim.Adam([length, scale, noise], lr=0.05)

    def step() -> Any:
        optimizer.zero_grad()
        distances = (x - x.t()) ** 2
        covariance = scale.exp() * torch.exp(-0.5 * distances / length.exp() ** 2) + noise.exp() * torch.eye(100)
        factor = torch.linalg.cholesky(covariance)
        solved = torch.cholesky_solve(y[:, None], factor)[:, 0]
        value = 0.5 * y @ solved + factor.diagonal().log().sum() + 50 * math.log(2 * math.pi)
        value.backward()
        optimizer.step()
        return value

    return step


NETWORKS: dict[str, Callable[[Any], Step]] = {
    "MobileNetV2": mobilenet,
    "ResNet18": resnet,
    "U-Net": unet,
    "VQ-VAE": vqvae,
    "Glow": glow,
    "DDPM": ddpm,
    "GPT": gpt,
    "LSTM": lstm,
    "neural ODE": neural_ode,
    "SVI": svi,
    "Gaussian process": gaussian_process,
}


def measured(name: str, library: str, options: argparse.Namespace) -> dict[str, Any]:
    """In this process: the seconds of each step, of the processor and of the wall, and the most memory in MB."""
    torch: Any = __import__(library, fromlist=["nn"])
    torch.manual_seed(0)
    torch.set_default_device(options.device)
    step = NETWORKS[name](torch)
    if options.compile and library != "torch":
        step = torch.compile(step)
    times, walls = [], []
    for _ in range(options.steps):
        cpu, wall = time.process_time(), time.perf_counter()
        step().item()
        times.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return {"cpu": times, "wall": walls, "memory": peak_memory()}


def in_process(name: str, library: str, options: Sequence[str]) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.networks", *options, "--measure", library, name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def import_of_jax() -> float:
    """The megabytes that JAX holds once it has added two numbers, in a process of its own."""
    program = (
        "import jax.numpy as jnp; from tests.benchmarks.memory import peak_memory; jnp.add(1, 1); print(peak_memory())"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def rows(names: Sequence[str], clock: str = "wall", options: Sequence[str] = ()) -> Iterator[Row]:
    """Five figures of each network, and the median of their steady steps."""
    steady = []
    imported = import_of_jax()
    # as the installer has done for PyTorch
    compileall.compile_dir(ROOT / "fgrad", quiet=1)
    for name in names:
        ours, theirs = (in_process(name, library, options) for library in ("fgrad.torch", "torch"))
        a, b = ours[clock], theirs[clock]
        median, their_median = (statistics.median(times[-20:]) for times in (a, b))
        slowest = max(a[1:])
        steady.append(median / their_median)
        # a first step of two seconds, and a later one of 0.3 s, is quick enough whatever PyTorch takes
        yield _row(f"{name}: first step", a[0], b[0], max(5.0, round(2.0 / b[0], 1)))
        yield Row(
            f"{name}: slowest later step",
            "its median step",
            slowest / median,
            max(5.0, round(0.3 / median, 1)),
            f"{_time(slowest)} / {_time(median)}",
        )
        yield _row(f"{name}: first {len(a)} steps", sum(a), sum(b), 2.0)
        yield _row(f"{name}: steady step", median, their_median, 6.0)
        detail = f"{ours['memory']:.0f} - {imported:.0f} / {theirs['memory']:.0f} MB"
        memory = (ours["memory"] - imported) / theirs["memory"]
        yield Row(f"{name}: peak memory, less JAX's own import", "PyTorch eager", memory, 1.3, detail)
    yield Row("the median of the steady steps", "PyTorch eager", statistics.median(steady), 2.5)


def _row(work: str, ours: float, theirs: float, wanted: float) -> Row:
    return Row(work, "PyTorch eager", ours / theirs, wanted, f"{_time(ours)} / {_time(theirs)}")


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--measure", metavar="LIBRARY", help="measure one network in this process")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.names[0], options.measure, options)))
        return
    passed_on = ["--steps", str(options.steps), "--device", options.device, *["--compile"] * options.compile]
    print(table(list(rows(options.names, "wall" if options.wall else "cpu", passed_on))))


if __name__ == "__main__":
    main()
