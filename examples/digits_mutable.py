"""Train a classifier of handwritten digits as one does in PyTorch: modules, ``loss.backward()``, an optimiser.

    python examples/digits_mutable.py

Change the one import line to ``import torch``, and the same program runs there.
"""

import argparse
import sys
import time
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import fgrad.torch as torch

nn = torch.nn

WANTED_ACCURACY = 0.97
NUM_TEST = 360
BATCH = 48


def digits(seed):
    """Training and test set: pixels in [0, 1] and labels."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    pixels = torch.tensor((pixels[order] / 16.0).astype(np.float32))
    labels = torch.tensor(labels[order].astype(np.int64))
    return (pixels[NUM_TEST:], labels[NUM_TEST:]), (pixels[:NUM_TEST], labels[:NUM_TEST])


class Classifier(nn.Module):
    """A multi-layer perceptron."""

    def __init__(self, *sizes):
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(m, n) for m, n in pairwise(sizes[:-1])])
        self.last = nn.Linear(sizes[-2], sizes[-1])

    def forward(self, x):
        for layer in self.hidden:
            x = torch.nn.functional.gelu(layer(x))
        return self.last(x)


def train(model, pixels, labels, epochs, console):
    """Train a model; the loss of every step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    loss_function = nn.CrossEntropyLoss()
    losses = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=epochs)
        for _ in range(epochs):
            order = torch.randperm(len(labels))
            for start in range(0, len(labels) - BATCH + 1, BATCH):
                chosen = order[start : start + BATCH]
                x = pixels[chosen] + 0.2 * torch.randn(BATCH, pixels.shape[1])
                loss = loss_function(model(x), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            schedule.step()
            progress.update(task, advance=1, description=f"training, loss {losses[-1]:.3f}")
    return losses


def accuracy(model, pixels, labels):
    """The fraction of pictures that a model classifies rightly."""
    model.eval()
    with torch.no_grad():
        right = (model(pixels).argmax(dim=1) == labels).float().mean().item()
    model.train()
    return right


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    console = Console()
    torch.manual_seed(options.seed)
    training, test = digits(options.seed)
    model = Classifier(64, 192, 64, 10)
    console.print(model)
    started = time.perf_counter()
    losses = train(model, *training, options.epochs, console)
    reached = accuracy(model, *test)
    seconds = time.perf_counter() - started
    console.print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, test accuracy {reached:.1%}, {seconds:.1f} s")
    return 0 if reached >= WANTED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
