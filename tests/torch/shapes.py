"""Random programs on awkward shapes: sizes 0 and 1, operands that are broadcast or lie across memory, scalar seeds.

A program is drawn from a seed and is the same function for fgrad.torch and for real torch.  It runs several times with
its gradients added up, as a training loop does, so that each way to run is met from the first run to the last.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SIZES = (0, 1, 1, 2, 3)

Maker = Callable[[Any, Sequence[Any], random.Random], Any]


def _matrix(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    return rng.choice([x for x in pool if x.dim() == 2])


def _like(torch: Any, x: Any, rng: random.Random, rows: int, columns: int) -> Any:
    """A constant matrix, in one of the ways in which it can lie in memory."""
    numbers = torch.arange(rows * columns, dtype=x.dtype) / 7 - 0.4
    lies = rng.randrange(4)
    if lies == 0:
        return numbers.reshape(rows, columns)
    if lies == 1:
        return numbers.reshape(columns, rows).t()
    if lies == 2:
        return torch.stack([numbers, numbers], 1)[:, 0].reshape(rows, columns)
    return (torch.arange(columns, dtype=x.dtype) / 5).expand(rows, columns)


def product(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = _matrix(torch, pool, rng)
    w = _like(torch, x, rng, x.shape[1], rng.choice(SIZES))
    return rng.choice([torch.matmul, torch.mm, lambda a, b: (b.t() @ a.t()).t(), lambda a, b: a @ b * 1])(x, w)


def linear(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = _matrix(torch, pool, rng)
    n = rng.choice(SIZES)
    w, b = _like(torch, x, rng, n, x.shape[1]), _like(torch, x, rng, 1, n)[0]
    return rng.choice(
        [
            lambda: torch.nn.functional.linear(x, w, b),
            lambda: torch.addmm(b, x, w.t()),
            lambda: torch.addmm(b, x, w.t(), beta=0.5, alpha=-2),
            lambda: torch.einsum("ij,kj->ik", x, w) + b,
        ]
    )()


def gram(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = _matrix(torch, pool, rng)
    return rng.choice([lambda: x @ x.t(), lambda: x.t() @ x, lambda: torch.bmm(x[None], x.t()[None])[0]])()


def reduction(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = rng.choice(pool)
    axis = rng.randrange(x.dim()) if x.dim() else 0
    keep = rng.random() < 0.5
    return rng.choice(
        [
            lambda: x.sum(axis, keepdim=keep),
            lambda: x.mean(axis, keepdim=True),
            lambda: x.sum(),
            lambda: x.mean(),
            lambda: torch.softmax(x, axis),
            lambda: torch.log_softmax(x, axis),
            lambda: torch.cumsum(x, axis),
            lambda: torch.logsumexp(x, axis, keepdim=keep),
            lambda: torch.linalg.vector_norm(x + 2, dim=axis, keepdim=keep),
        ]
    )()


def elementwise(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = rng.choice(pool)
    name = rng.choice(["sin", "tanh", "exp", "neg", "relu", "sigmoid", "square", "abs"])
    return getattr(torch, name)(x * 0.5)


def binary(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = rng.choice(pool)
    others = [y for y in pool if _broadcasts(tuple(x.shape), tuple(y.shape))]
    y = rng.choice(others)
    name = rng.choice(["add", "sub", "mul", "maximum", "hypot"])
    return getattr(torch, name)(x, y)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def movement(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = rng.choice([y for y in pool if y.dim()])
    axis = rng.randrange(x.dim())
    options = [
        lambda: x.transpose(0, -1),
        lambda: x.unsqueeze(axis),
        lambda: x.flip(axis),
        lambda: torch.cat([x, x * 2], axis),
        lambda: x.reshape(-1),
        lambda: x.narrow(axis, 0, max(x.shape[axis] - 1, 0)),
        lambda: x.roll(1, axis),
        lambda: x.movedim(axis, 0),
        lambda: x.unsqueeze(0).expand(3, *x.shape),
        lambda: x.squeeze(),
        lambda: torch.nn.functional.pad(x, (1, 0)),
        lambda: x[..., ::2],
    ]
    return rng.choice(options)()


def written(torch: Any, pool: Sequence[Any], rng: random.Random) -> Any:
    x = rng.choice([y for y in pool if y.dim()]).clone()
    view = rng.choice([x, x.transpose(0, -1), x[..., :1], x.reshape(-1)])
    rng.choice([lambda: view.mul_(2), lambda: view.add_(0.5), lambda: view.zero_(), lambda: view.copy_(view.sin())])()
    return x


MAKERS: tuple[Maker, ...] = (product, linear, gram, reduction, elementwise, binary, movement, written)


def played(seed: int, torch: Any, runs: int) -> list[np.ndarray]:
    """The leaves' gradients after so many runs, and the last loss."""
    rng = random.Random(seed)
    leaves = []
    for k in range(rng.randrange(1, 4)):
        shape = [rng.choice(SIZES) for _ in range(rng.choice((2, 2, 2, 1, 3)) if k else 2)]
        numbers = (np.arange(np.prod(shape, dtype=int)) * 0.37 % 1.9 - 0.6).reshape(shape)
        leaves.append(torch.tensor(numbers.tolist(), dtype=torch.float32).reshape(shape).requires_grad_())
    steps, drawn = rng.randrange(1, 7), rng.random()
    found = []
    for _ in range(runs):
        each = random.Random(drawn)
        pool: list[Any] = list(leaves)
        for _ in range(steps):
            pool.append(each.choice(MAKERS)(torch, pool[-4:] if len(pool[-1].shape) == 2 else pool, each))
        last = pool[-1]
        end = each.randrange(5)
        if end == 0:
            loss = last.sum()
        elif end == 1:
            loss = -(last.sum() / 3) + sum(x.sum() for x in leaves)
        elif end == 2:
            loss = (last * last).sum() - last.sum()
        elif end == 3:
            loss = last.mean() if last.numel() else last.sum()
        else:
            loss = last
        if loss.requires_grad:
            loss.backward(None if loss.numel() == 1 else torch.ones(()).expand(loss.shape))
        found = [loss.detach(), *[x.grad for x in leaves]]
    return [np.zeros(0) if x is None else np.array(x.tolist(), "float64").reshape(tuple(x.shape)) for x in found]


Outcome = tuple[list[np.ndarray], Exception | None]


def check(seed: int, ours: Any, theirs: Any, runs: int = 3) -> None:
    """Raise AssertionError where two libraries, or two lanes, show different numbers."""
    compare(seed, outcome(seed, ours, runs), outcome(seed, theirs, runs))


def compare(seed: int, found: Outcome, wanted: Outcome) -> None:
    (mine, my_error), (others, error) = found, wanted
    assert type(my_error) is type(error), f"{seed}: {my_error!r} and {error!r}"
    for k, (a, b) in enumerate(zip(mine, others, strict=True)):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"seed {seed}, value {k}")


def outcome(seed: int, torch: Any, runs: int = 3) -> Outcome:
    """What a program gives, or the error that it raises."""
    try:
        return played(seed, torch, runs), None
    except (RuntimeError, IndexError) as error:
        return [], error
