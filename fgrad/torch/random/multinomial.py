"""Categories drawn by weight."""

from typing import Any

import numpy as np

from fgrad.torch.random.generator import Generator
from fgrad.torch.random.inversion import exponential
from fgrad.torch.random.scalars import FLOATING, Array, scalar_name

_MOST_CATEGORIES = 2**24


def multinomial(weights: Array, count: int, replacement: bool, generator: Generator) -> Array:
    """Draws ``count`` categories from each row of weights, which need not sum to one.

    Ties among draws without replacement are in the order of the categories; PyTorch's depends on its sorting algorithm.

    Raises ``RuntimeError`` for weights that are negative, not finite or all zero, for other than one or two dimensions,
    and for more draws than there are categories to draw without replacement.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> weights = np.array([0.0, 10.0, 3.0, 0.0], np.float32)
    >>> multinomial(weights, 4, True, Generator().manual_seed(0))
    array([2, 1, 1, 2])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.multinomial.html
    """
    generator.check_on_host()
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype not in FLOATING:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {scalar_name(weights.dtype)}"
        )
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if weights.shape[-1] > _MOST_CATEGORIES:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if weights.ndim == 2 and len(weights) == 0:
        return np.empty((0, count), np.int64)
    if count == 1 or not replacement:
        return _race(weights, count, generator)
    drawn = [_with_replacement(row, count, generator) for row in np.atleast_2d(weights)]
    return np.array(drawn).reshape(*weights.shape[:-1], count)


def _race(weights: Array, count: int, generator: Generator) -> Array:
    """The first of exponential arrival times whose rates are the weights."""
    if weights.size == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    if not ((weights.max() < np.inf) & (weights.min() >= 0)):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (weights != 0).any(axis=-1).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    times = exponential(weights.shape, weights.dtype, generator)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        speeds = weights / times
    if count == 1:
        return speeds.argmax(axis=-1, keepdims=True)
    return np.argsort(-speeds, axis=-1, kind="stable")[..., :count]


def _with_replacement(weights: Array, count: int, generator: Generator) -> list[Any]:
    precise = weights.astype(np.float64 if weights.dtype == np.float64 else np.float32)
    # the first bad weight decides which error it is
    bad = ~((precise >= 0) & np.isfinite(precise))
    if bad.any():
        first = precise[bad.argmax()]
        entry = "= infinity or NaN" if first >= 0 else "< 0"
        raise RuntimeError(f"invalid multinomial distribution (encountering probability entry {entry})")
    cumulative = np.cumsum(precise)
    if not (len(cumulative) and cumulative[-1] > 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    cumulative /= cumulative[-1]
    cumulative[-1] = 1
    return np.searchsorted(cumulative.astype(np.float64), generator.doubles(count), side="left").tolist()
