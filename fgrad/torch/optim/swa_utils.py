"""Averages of the weights over training: the averaged model, how it averages, and the schedule that goes with it."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal

from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import int64
from fgrad.torch import nn, ops
from fgrad.torch.optim.lr_scheduler.scheduler import LRScheduler, Rates, per_group
from fgrad.torch.optim.optimizer import Optimizer

__all__ = [
    "AveragedModel",
    "update_bn",
    "SWALR",
    "get_ema_multi_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """The exponential moving average of many parameters, in place."""
    _check_decay(decay)

    @no_grad()
    def ema_update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        for average, value in zip(averaged, current, strict=True):
            average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """The mean of many parameters over the calls, in place."""
    mean = get_swa_avg_fn()

    @no_grad()
    def swa_update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        for average, value in zip(averaged, current, strict=True):
            average.copy_(mean(average, value, num_averaged))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average of one parameter."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """The mean of one parameter over the calls."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(nn.Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
      model: the model.
      device: where the averages are kept.
      avg_fn: a function of average, current value and count, for one parameter.
      multi_avg_fn: a function of averages, current values and count, which writes the averages.
      use_buffers: average the buffers, too, instead of copying them.

    Raises:
      AssertionError: both functions are given.

    >>> import fgrad.torch as torch
    >>> model = torch.nn.Linear(1, 1)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0

    Source: https://docs.pytorch.org/docs/2.13/optim.html#weight-averaging-swa-and-ema
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: nn.Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module: Any = self.module.to(device)
        self.register_buffer("n_averaged", ops.tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: nn.Module) -> None:
        """Take the parameters of ``model`` into the averages.

        Args:
          model: the model as it is now.
        """
        averages = [average.detach() for average in self._averaged(self.module)]
        values = [value.detach().to(a.device) for value, a in zip(self._averaged(model), averages, strict=False)]
        is_first = self.n_averaged == 0
        if modes.capturing is not None:  # one program for the first and the later calls
            updated = [average.clone() for average in averages]
            self._average(updated, values)
            for average, value, new in zip(averages, values, updated, strict=True):
                average.copy_(ops.where(is_first, value, new))
        elif is_first:
            for average, value in zip(averages, values, strict=False):
                average.copy_(value)
        else:
            self._average(averages, values)
        if not self.use_buffers:
            for average, value in zip(self.module.buffers(), model.buffers(), strict=True):
                average.detach().copy_(value.detach().to(average.device))
        self.n_averaged += 1

    def _average(self, averages: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Take values into averages, as a call after the first does."""
        if self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, values, self.n_averaged)
        else:
            for average, value in zip(averages, values, strict=True):
                average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))

    def _averaged(self, module: nn.Module) -> Iterable[Tensor]:
        return itertools.chain(module.parameters(), module.buffers()) if self.use_buffers else module.parameters()


@no_grad()
def update_bn(loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
    """Compute the running statistics of all batch normalisations anew, in one pass over the data.

    Args:
      loader: gives batches, each a tensor or a sequence whose first entry is the input.
      model: the model with averaged parameters.
      device: where the batches are put.

    >>> import fgrad.torch as torch
    >>> model = torch.nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])

    Source: https://docs.pytorch.org/docs/2.13/optim.html#taking-care-of-batch-normalization
    """
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, kinds)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        # without momentum, the statistics are means over all batches
        module.momentum = None
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        model(inputs if device is None else inputs.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Move the rates to fixed ones, at which the weights are averaged.

    Args:
      optimizer: whose learning rates it sets.
      swa_lr: the rate to arrive at, one for all groups or a list.
      anneal_epochs: epochs until then.
      anneal_strategy: ``"cos"`` or ``"linear"``.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      ValueError: an argument is out of its range.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.75]
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/optim.html#swa-learning-rate-schedules
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        self._check_inside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            rate, target = group["lr"], group["swa_lr"]
            # where the annealing began, from where it stands
            first = target if before == 1 else (rate - before * target) / (1 - before)
            rates.append(target * now + first * (1 - now))
        return rates

    def _share(self, step: int) -> float:
        """How much of the way is behind at a step."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
