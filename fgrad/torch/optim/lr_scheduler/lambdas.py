"""Schedulers that ask functions of the user."""

import types
from collections.abc import Callable
from typing import Any

from fgrad.torch.optim.lr_scheduler.scheduler import LRScheduler, Rates, values
from fgrad.torch.optim.optimizer import Optimizer

Factor = Callable[[int], float]


class _Functions(LRScheduler):
    """A function of the epoch per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, list | tuple):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas: list[Any] = [lr_lambda] * count
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser and functions; of callable objects, their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else function.__dict__.copy()
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, with attributes for callable objects."""
        self._take_over({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for i, attributes in enumerate(state_dict["lr_lambdas"]):
            if attributes is not None:
                self.lr_lambdas[i].__dict__.update(attributes)


class LambdaLR(_Functions):
    """Set the rates to the initial ones times a function of the epoch.

    Args:
      optimizer: whose learning rates it sets.
      lr_lambda: the function, or a list with one for each group.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      ValueError: there are not as many functions as groups.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.LambdaLR.html
    """

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        self._check_inside_step()
        return [rate * function(self.last_epoch) for function, rate in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_Functions):
    """Multiply the rates by a function of the epoch.

    Args:
      optimizer: whose learning rates it sets.
      lr_lambda: the function, or a list with one for each group.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      ValueError: there are not as many functions as groups.
      TypeError: one is no function.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.MultiplicativeLR.html
    """

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        self._check_inside_step()
        if self._is_initial:
            return values(self.optimizer, "lr")
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]
