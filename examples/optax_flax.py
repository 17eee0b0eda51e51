"""Models of flax and optimisers of optax, written for JAX, with fgrad's gradients: nothing in them has to change.

    python -m pip install flax optax
    python examples/optax_flax.py

A small network learns which of two interleaved spirals a point belongs to.
"""

import sys
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import fgrad


class Network(nn.Module):
    """Three dense layers."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(2):
            x = nn.tanh(nn.Dense(32)(x))
        return nn.Dense(1)(x)[..., 0]


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals, and which one each is on."""
    rng = np.random.default_rng(seed)
    turn = np.sqrt(rng.random(count)) * 3 * np.pi
    label = rng.integers(0, 2, count)
    angle = turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1) / (3 * np.pi)
    return (points + 0.01 * rng.normal(size=points.shape)).astype(np.float32), label.astype(np.float32)


network = Network()
optimiser = optax.adam(optax.cosine_decay_schedule(2e-2, 1500))


def loss(variables: Any, points: Any, labels: Any) -> Any:
    return optax.sigmoid_binary_cross_entropy(network.apply(variables, points), labels).mean()


@fgrad.jit
def step(variables: Any, state: Any, points: Any, labels: Any) -> tuple[Any, Any, Any]:
    value, grads = fgrad.value_and_grad(loss)(variables, points, labels)
    updates, state = optimiser.update(grads, state)
    return value, optax.apply_updates(variables, updates), state


def main() -> int:
    points, labels = spirals(400, seed=0)
    variables = network.init(jax.random.key(0), points)
    state = optimiser.init(variables)
    for number in range(1501):
        value, variables, state = step(variables, state, points, labels)
        if number % 300 == 0:
            print(f"step {number:4}: loss {float(value):.4f}")
    unseen, truth = spirals(400, seed=1)
    right = float(jnp.mean((network.apply(variables, unseen) > 0) == (truth > 0.5)))
    print(f"{right:.1%} of unseen points are put on the right spiral")
    return 0 if right > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
