"""Train a classifier of handwritten digits with ``fgrad.value_and_grad``, and look at its gradient.

    python examples/digits.py

The 1797 pictures of 8x8 pixels come with scikit-learn.  The model is a plain function of a dict of arrays; nothing in
it knows about derivatives.  The pictures of the graphs and of the loss end up in ``examples/out``.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import fgrad

Params = dict[str, Any]
Set = tuple[np.ndarray, np.ndarray]  # pixels and labels

WANTED_ACCURACY = 0.97
NUM_TEST = 360
BATCH = 48


# --------------------------------------------------------------------------------------------------------------------
# the data


def digits(seed: int) -> tuple[Set, Set]:
    """Training and test set: pixels in [0, 1] and labels, in an order that ``seed`` fixes."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    pixels, labels = (pixels[order] / 16.0).astype(np.float32), labels[order].astype(np.int32)
    return (pixels[NUM_TEST:], labels[NUM_TEST:]), (pixels[:NUM_TEST], labels[:NUM_TEST])


def batches(pixels: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Iterator[Set]:
    """One pass over the training set in random order, with a little noise, so that pixels are not learnt by heart."""
    order = rng.permutation(len(labels))
    for start in range(0, len(labels) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        noise = 0.2 * rng.standard_normal((BATCH, pixels.shape[1]), np.float32)
        yield pixels[chosen] + noise, labels[chosen]


# --------------------------------------------------------------------------------------------------------------------
# the model: plain functions of plain arrays


def init(key: Any, sizes: tuple[int, ...] = (64, 192, 64, 10)) -> Params:
    """Weights and biases of a multi-layer perceptron."""
    keys = jax.random.split(key, len(sizes) - 1)
    return {
        f"layer{i}": {"w": jax.random.normal(k, (m, n)) * np.sqrt(2.0 / m), "b": jnp.zeros(n)}
        for i, (k, m, n) in enumerate(zip(keys, sizes[:-1], sizes[1:], strict=True))
    }


def dense(layer: Params, x: Any) -> Any:
    return x @ layer["w"] + layer["b"]


def logits(params: Params, x: Any) -> Any:
    *hidden, last = (params[name] for name in sorted(params))
    for layer in hidden:
        x = jax.nn.gelu(dense(layer, x))
    return dense(last, x)


def cross_entropy(scores: Any, labels: Any) -> Any:
    """Mean negative log-likelihood of the labels."""
    return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, scores.shape[-1]) * jax.nn.log_softmax(scores), axis=-1))


def loss(params: Params, x: Any, labels: Any) -> Any:
    return cross_entropy(logits(params, x), labels)


def layer_loss(layer: Params, x: Any, target: Any) -> Any:
    """The squared error of one layer; small enough for its graph to be read."""
    return jnp.mean((jnp.tanh(dense(layer, x)) - target) ** 2)


# --------------------------------------------------------------------------------------------------------------------
# the optimiser: a pure function too


def adam(params: Params, state: Params, grads: Params, rate: Any) -> tuple[Params, Params]:
    """One step of Adam: new parameters and new state."""
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], grads)
    scale = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, m, s: p - scale * m / (jnp.sqrt(s) + 1e-8), params, mean, square)
    return params, {"count": count, "mean": mean, "square": square}


@fgrad.jit
def step(params: Params, state: Params, x: Any, labels: Any, rate: Any) -> tuple[Any, Params, Params]:
    """Loss, gradient and update in one compiled program."""
    value, grads = fgrad.value_and_grad(loss)(params, x, labels)
    return value, *adam(params, state, grads, rate)


@fgrad.jit
def accuracy(params: Params, x: Any, labels: Any) -> Any:
    return jnp.mean(jnp.argmax(logits(params, x), axis=-1) == labels)


def train(epochs: int, seed: int, console: Console) -> tuple[list[float], float]:
    """The loss of every step, and the accuracy on the test set."""
    (pixels, labels), test = digits(seed)
    rng = np.random.default_rng(seed)
    params = init(jax.random.key(seed))
    state = {"count": 0.0, "mean": jax.tree.map(jnp.zeros_like, params), "square": jax.tree.map(jnp.zeros_like, params)}
    losses: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=epochs)
        for epoch in range(epochs):
            rate = 3e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
            values = []
            for x, y in batches(pixels, labels, rng):
                value, params, state = step(params, state, x, y, rate)
                values.append(value)
            losses += [float(x) for x in values]
            progress.update(task, advance=1, description=f"training, loss {np.mean(losses[-len(values) :]):.4f}")
    return losses, float(accuracy(params, *test))


# --------------------------------------------------------------------------------------------------------------------
# what there is to see


def layer_graphs() -> tuple[Any, Any]:
    """The graph of one small layer's loss, and the graph of its gradient."""
    layer = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
    graph = fgrad.make_graph(layer_loss)(layer, jnp.ones((4, 3)), jnp.ones((4, 2)))
    return graph, graph.grad()


def draw_losses(losses: list[float], file: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(losses, linewidth=0.6, alpha=0.5, label="each step")
    window = min(30, len(losses))
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    axes.plot(np.arange(window - 1, len(losses)), smooth, label=f"mean of {window} steps")
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", title="Handwritten digits")
    axes.legend()
    figure.savefig(file, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="where the pictures go")
    options = parser.parse_args()
    console = Console()

    graph, gradient = layer_graphs()
    console.print("[bold]The loss of one layer, as a graph[/bold]")
    console.print(str(graph), markup=False, highlight=False, soft_wrap=True)
    console.print("\n[bold]Its gradient, a graph as well[/bold]")
    console.print(str(gradient), markup=False, highlight=False, soft_wrap=True)
    console.print()

    start = time.perf_counter()
    losses, correct = train(options.epochs, options.seed, console)
    console.print(f"{correct:.1%} of {NUM_TEST} unseen digits are right, after {time.perf_counter() - start:.1f} s")

    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "layer_loss.svg").write_text(graph.to_svg())
    (options.out / "layer_gradient.svg").write_text(gradient.to_svg())
    draw_losses(losses, options.out / "loss.png")
    for file in sorted(options.out.iterdir()):
        console.print(f"saved {file}", soft_wrap=True)

    if correct < WANTED_ACCURACY:
        console.print(f"[red]that is less than the {WANTED_ACCURACY:.0%} that this example should reach[/red]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
