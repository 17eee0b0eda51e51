"""A scheduler that waits until a metric no longer improves."""

import math
from typing import Any, Literal, SupportsFloat

from fgrad.mutable.context.warning import warn
from fgrad.torch.optim.lr_scheduler.scheduler import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    check_optimizer,
    values,
    write,
)
from fgrad.torch.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rates by ``factor`` when a metric has stopped improving.

    Args:
      optimizer: whose learning rates it sets.
      mode: ``"min"`` if the metric is to fall, ``"max"`` if it is to rise.
      factor: the factor, below 1.
      patience: epochs without improvement that are borne.
      threshold: the least improvement that counts.
      threshold_mode: ``"rel"`` if the threshold is a share of the best value, ``"abs"`` if a difference from it.
      cooldown: epochs after a reduction in which nothing is counted.
      min_lr: the least rate, one for all groups or a list.
      eps: a smaller change of the rate is not made.

    Raises:
      TypeError: ``optimizer`` is none.
      ValueError: a mode is unknown, the factor is not below 1, or ``min_lr`` has the wrong length.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 3.0, 3.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != count:
                raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._note_rates(values(optimizer, "lr"))
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: Any, threshold: float, threshold_mode: Any) -> None:
        if mode not in {"min", "max"}:
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in {"rel", "abs"}:
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode_worse: float = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction is so recent that nothing is counted."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        """Whether ``a`` improves on ``best`` by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        bound = best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of the metric of an epoch, and lower the rates if it is time.

        Args:
          metrics: the metric, a number or a tensor with one.
          epoch: the epoch (deprecated).

        Raises:
          RuntimeError: parameter groups were added, and ``min_lr`` has none for them.
        """
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self.last_epoch: int = epoch
        if self._is_better(current, self.best):
            self.best: float = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter: int = self.cooldown
            self.num_bad_epochs: int = 0
        self._note_rates(values(self.optimizer, "lr"))

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs: list[float] = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                write(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._take_over(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
