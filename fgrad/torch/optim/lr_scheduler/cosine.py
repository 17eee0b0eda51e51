"""Schedulers that follow a cosine, once or again and again."""

import math
from typing import Any

from fgrad.torch.optim.lr_scheduler.scheduler import LRScheduler, Rates, raised, values
from fgrad.torch.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Let the rates fall to ``eta_min`` along half a cosine.

    Args:
      optimizer: whose learning rates it sets.
      T_max: epochs to the minimum.
      eta_min: the least rate.
      last_epoch: the epoch to resume after, or -1 to begin.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(f"{scheduler.get_last_lr()[0]:.3f}")
    0.500
    0.000

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.CosineAnnealingLR.html
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        self._check_inside_step()
        if self._is_initial:
            return values(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # from a minimum there is no factor that leads up again
            rise = 1 - math.cos(math.pi / self.T_max)
            return [rate + (base - self.eta_min) * rise / 2 for base, rate in zip(self.base_lrs, rates, strict=True)]
        factor = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [factor * (rate - self.eta_min) + self.eta_min for rate in rates]

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self) -> Rates:
        height = self._height(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Let the rates fall along half a cosine, and start again at the top.

    Args:
      optimizer: whose learning rates it sets.
      T_0: epochs to the first restart.
      T_mult: how many times longer each period is than the last.
      eta_min: the least rate.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      ValueError: an argument is out of its range or of the wrong type.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(f"{scheduler.get_last_lr()[0]:.3f}")
    0.500
    1.000
    0.500

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.html
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        self._check_inside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch and set its rates.

        Args:
          epoch: go to this epoch instead; it may be a fraction, as when each batch is a step.

        Raises:
          ValueError: ``epoch`` is negative.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch: int = math.floor(epoch)
        with raised(self, "_get_lr_called_within_step"):
            rates = self.get_lr()
        self._set_rates(rates)

    def _jump(self, epoch: float) -> None:
        """Find the period that ``epoch`` is in."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            period = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**period - 1) / (self.T_mult - 1)
            self.T_i: int = self.T_0 * self.T_mult**period
