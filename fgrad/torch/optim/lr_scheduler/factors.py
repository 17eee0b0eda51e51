"""Schedulers that multiply the rates by a factor per epoch."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from fgrad.mutable.types.symbolic import applied
from fgrad.torch.optim.lr_scheduler.scheduler import LRScheduler, Rates, values
from fgrad.torch.optim.optimizer import Optimizer


class FactorScheduler(LRScheduler):
    """A scheduler that takes the rates as it finds them, so that several can be chained."""

    def _factor(self) -> float | None:
        """What the rates are multiplied with in this epoch, if with anything."""
        raise NotImplementedError

    def _total_factor(self) -> float:
        """What the initial rates are multiplied with up to this epoch."""
        raise NotImplementedError

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        self._check_inside_step()
        factor = self._factor()
        if factor is None:
            return values(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> Rates:
        return [rate * self._total_factor() for rate in self.base_lrs]


class StepLR(FactorScheduler):
    """Multiply the rates by ``gamma`` every ``step_size`` epochs.

    Args:
      optimizer: whose learning rates it sets.
      step_size: epochs between two changes.
      gamma: the factor.
      last_epoch: the epoch to resume after, or -1 to begin.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [1.0]
    [0.5]
    [0.5]
    [0.25]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.StepLR.html
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma

    def _total_factor(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(FactorScheduler):
    """Multiply the rates by ``gamma`` at each milestone.

    Args:
      optimizer: whose learning rates it sets.
      milestones: epochs; one that stands there twice counts twice.
      gamma: the factor.
      last_epoch: the epoch to resume after, or -1 to begin.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.5]
    [0.5]
    [0.25]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.MultiStepLR.html
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: Counter[int] = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        count = applied(self.milestones.__getitem__, self.last_epoch)
        return self.gamma**count if count else None

    def _total_factor(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(FactorScheduler):
    """Multiply the rates by ``factor`` until ``total_iters`` epochs are over.

    Args:
      optimizer: whose learning rates it sets.
      factor: the factor, from 0 to 1.
      total_iters: the epoch at which the rates are what they were.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      ValueError: the factor is out of its range.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.5]
    [1.0]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.ConstantLR.html
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _total_factor(self) -> float:
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(FactorScheduler):
    """Multiply the rates by a factor that goes from ``start_factor`` to ``end_factor``.

    Args:
      optimizer: whose learning rates it sets.
      start_factor: the first factor, above 0 and up to 1.
      end_factor: the last factor, from 0 to 1.
      total_iters: the epoch that has the last factor.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      ValueError: a factor is out of its range.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.75]
    [1.0]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.LinearLR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _total_factor(self) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters


class ExponentialLR(FactorScheduler):
    """Multiply the rates by ``gamma`` every epoch.

    Args:
      optimizer: whose learning rates it sets.
      gamma: the factor.
      last_epoch: the epoch to resume after, or -1 to begin.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.ExponentialLR.html
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _total_factor(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(FactorScheduler):
    """Let the rates fall to zero along a polynomial.

    Args:
      optimizer: whose learning rates it sets.
      total_iters: the epoch at which they are zero.
      power: of the polynomial.
      last_epoch: the epoch to resume after, or -1 to begin.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2.0)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.25]
    [0.0]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.PolynomialLR.html
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return ((1.0 - self.last_epoch / self.total_iters) / before) ** self.power

    def _total_factor(self) -> float:
        return (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
