"""The line search of L-BFGS: a step at which loss and slope fulfil the strong Wolfe conditions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor


@frozen(eq=False)
class Trial:
    """What was found a step along the line: the loss, its gradient, and the slope in the line's direction."""

    step: float
    loss: float
    grad: Tensor
    slope: float


def _cubic_minimum(one: Trial, other: Trial, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two trials and their slopes is least, or the middle where it has no minimum."""
    a, b = (one, other) if one.step <= other.step else (other, one)
    low, high = bounds or (a.step, b.step)
    # a division by zero yields what tensors yield, and the bounds catch it
    with np.errstate(all="ignore"):
        between = a.slope + b.slope - 3 * np.float64(a.loss - b.loss) / (a.step - b.step)
        discriminant = between**2 - a.slope * b.slope
        if not discriminant >= 0:
            return (low + high) / 2.0
        root = np.sqrt(discriminant)
        fraction = (b.slope + root - between) / (b.slope - a.slope + 2 * root)
        return float(min(max(b.step - (b.step - a.step) * fraction, low), high))


def _bracket(
    evaluate: Callable[[float], Trial], start: Trial, step: float, limit: int, c1: float, c2: float
) -> tuple[list[Trial], bool, int]:
    """Widen until two trials have an acceptable one between them; or one that is, and ``True``."""
    before, trial = start, evaluate(step)
    for tries in range(limit):
        if trial.loss > start.loss + c1 * trial.step * start.slope or (tries > 1 and trial.loss >= before.loss):
            return [before, trial], False, tries
        if abs(trial.slope) <= -c2 * start.slope:
            return [trial], True, tries
        if trial.slope >= 0:
            return [before, trial], False, tries
        nearest = trial.step + 0.01 * (trial.step - before.step)
        step = _cubic_minimum(before, trial, (nearest, trial.step * 10))
        before, trial = trial, evaluate(step)
    return [start, trial], False, limit


def strong_wolfe(
    evaluate: Callable[[float], Trial],
    start: Trial,
    step: float,
    reach: float,
    limit: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> tuple[Trial, int]:
    """Search for a step that lowers the loss by enough and flattens the slope by enough.

    Args:
      evaluate: the trial at a step.
      start: the trial at step zero.
      step: where to look first.
      reach: the largest change of an element in a step of one.
      limit: how often the step may be changed.
      c1, c2: the shares of the first slope that the loss must fall by and the slope may keep.
      tolerance_change: a bracket in which no element changes by more is not divided further.

    Returns:
      The best trial and the count of evaluations.
    """
    bracket, done, tries = _bracket(evaluate, start, step, limit, c1, c2)
    evaluations = tries + 1
    low, high = _order(bracket)
    stalled = False
    while not done and tries < limit:
        first, last = sorted(trial.step for trial in bracket)
        if (last - first) * reach < tolerance_change:
            break
        step = _cubic_minimum(bracket[0], bracket[1])
        margin = 0.1 * (last - first)
        close = min(last - step, step - first) < margin
        if close and (stalled or step >= last or step <= first):
            step = last - margin if abs(step - last) < abs(step - first) else first + margin
            close = False
        stalled = close
        trial = evaluate(step)
        evaluations += 1
        tries += 1
        if trial.loss > start.loss + c1 * step * start.slope or trial.loss >= bracket[low].loss:
            bracket[high] = trial
            low, high = _order(bracket)
            continue
        if abs(trial.slope) <= -c2 * start.slope:
            done = True
        elif trial.slope * (bracket[high].step - bracket[low].step) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = trial
    return bracket[low], evaluations


def _order(bracket: list[Trial]) -> tuple[int, int]:
    """The places of the lower and of the higher loss."""
    return (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)


# -- as PyTorch's ``optim.lbfgs`` has it, which libraries of optimisers import -----------------------------------------


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> float:
    """Where the cubic through two points, with losses and slopes, is least."""
    one, other = Trial(float(x1), float(f1), g1, float(g1)), Trial(float(x2), float(f2), g2, float(g2))
    return _cubic_minimum(one, other, None if bounds is None else (float(bounds[0]), float(bounds[1])))


def _strong_wolfe(
    obj_func: Callable[[Any, float, Tensor], tuple[Any, Tensor]],
    x: Any,
    t: Any,
    d: Tensor,
    f: Any,
    g: Tensor,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:
    """Loss, gradient, step and count of evaluations of a search from ``x``, along ``d``, that tries ``t`` first."""

    def evaluate(step: float) -> Trial:
        loss, grad = obj_func(x, step, d)
        return Trial(step, float(loss), grad, float(grad.dot(d)))

    start, reach = Trial(0.0, float(f), g, float(gtd)), float(d.abs().max())
    best, evaluations = strong_wolfe(evaluate, start, float(t), reach, max_ls, c1, c2, tolerance_change)
    return best.loss, best.grad, best.step, evaluations
