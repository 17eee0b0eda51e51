"""Schedulers made of schedulers: one after the other, or all at once."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from fgrad.torch.optim.lr_scheduler.plateau import ReduceLROnPlateau
from fgrad.torch.optim.lr_scheduler.scheduler import LRScheduler, values, write
from fgrad.torch.optim.optimizer import Optimizer


class _Composite(LRScheduler):
    _schedulers: Sequence[Any]

    def _check_parts(self, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if optimizer != scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser, with a state for each scheduler."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, each scheduler its own."""
        self._take_over({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for i, state in enumerate(state_dict["_schedulers"]):
            self._schedulers[i].load_state_dict(state)


class SequentialLR(_Composite):
    """Follow one scheduler after the other.

    Args:
      optimizer: whose learning rates they set.
      schedulers: the schedulers in their order.
      milestones: the epoch at which each but the first begins.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      TypeError: one of them has no optimiser.
      ValueError: there are no schedulers, or not one more than milestones; one is of another optimiser or needs
        metrics.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> warmup = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=10)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.5]
    [1.0]
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.SequentialLR.html
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check_parts(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # each has made its first step when it was made; only that of the first one counts
        for group in optimizer.param_groups:
            write(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._note_rates(first.get_last_lr())

    def recursive_undo(self, sched: Any = None) -> None:
        """Take the epochs of all schedulers back by one."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for part in scheduler._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch, with the scheduler whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._note_rates(scheduler.get_last_lr())


class ChainedScheduler(_Composite):
    """Step several schedulers at once, each on the rates that the one before it leaves.

    Args:
      schedulers: the schedulers in their order.
      optimizer: whose learning rates they set, by default that of the first.

    Raises:
      TypeError: one of them has no optimiser.
      ValueError: there are no schedulers; one is of another optimiser or needs metrics.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> warmup = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=10)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = torch.optim.lr_scheduler.ChainedScheduler([warmup, decay])
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.ChainedScheduler.html
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check_parts(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._note_rates(values(schedulers[-1].optimizer, "lr"))

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch, with all schedulers."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._note_rates(values(self._schedulers[-1].optimizer, "lr"))
