"""A training script as one writes it for PyTorch; ``epoch_as_one_program.py`` runs an epoch of it as one XLA program.

    python examples/training_script.py

Change the one import line to ``import torch``, and the same program runs there.
"""

import numpy as np
from sklearn.datasets import load_digits

import fgrad.torch as torch

BATCH, EPOCHS = 48, 3

torch.manual_seed(0)
pixels, labels = load_digits(return_X_y=True)
pixels, labels = torch.tensor((pixels / 16.0).astype(np.float32)), torch.tensor(labels.astype(np.int64))

model = torch.nn.Sequential(
    torch.nn.Linear(64, 128),
    torch.nn.BatchNorm1d(128),
    torch.nn.ReLU(),
    torch.nn.Dropout(0.2),
    torch.nn.Linear(128, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def batches():
    """The batches of an epoch, in a new order."""
    order = torch.randperm(len(labels))
    return [(pixels[i], labels[i]) for i in order[: len(order) // BATCH * BATCH].split(BATCH)]


def step(x, y):
    """One step of training; the loss."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def accuracy():
    """How many of the digits are recognised."""
    model.eval()
    right = (model(pixels).argmax(1) == labels).float().mean().item()
    model.train()
    return right


def main():
    for epoch in range(EPOCHS):
        losses = [step(x, y).item() for x, y in batches()]
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}, {accuracy():.1%} of the digits are right")


if __name__ == "__main__":
    main()
