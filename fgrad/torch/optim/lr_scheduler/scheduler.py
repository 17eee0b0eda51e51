"""The base of learning-rate schedulers: epochs, the rates of the groups, and the order of calls."""

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.optim.optimizer import Group, Optimizer

Rates = list[Any]

_HOW_TO_ADJUST = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make "
    f"sure to call `optimizer.step()` before `lr_scheduler.step()`. {_HOW_TO_ADJUST}"
)
_WRONG_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
    "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
    f"PyTorch skipping the first value of the learning rate schedule. {_HOW_TO_ADJUST}"
)
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


class LRScheduler:
    """What all schedulers share; one of them defines ``get_lr``, the rates of the groups at ``last_epoch``.

    Args:
      optimizer: whose learning rates it sets.
      last_epoch: the epoch to resume after, or -1 to begin.

    Raises:
      TypeError: ``optimizer`` is none.
      KeyError: resuming, but a group does not know its initial rate.

    >>> import fgrad.torch as torch
    >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate * 0.5**self.last_epoch for rate in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.LRScheduler.html
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    _last_lr: Rates

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0.\n"
                    "This typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer "
                    "state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: Rates = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        with raised(self, "_is_initial"):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser."""
        return {key: _as_now(key, value) for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._take_over(state_dict)

    def _take_over(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: _as_now(key, value) for key, value in state.items()})

    def get_last_lr(self) -> Rates:
        """The rates that the scheduler set last, one per group."""
        return [*self._last_lr]

    def _note_rates(self, rates: Rates) -> None:
        """Remember the rates that were set last, in the same list: its items can be set by a compiled step."""
        noted = self.__dict__.get("_last_lr", ())
        if len(noted) == len(rates):
            noted[:] = rates
        else:
            self._last_lr = rates

    def get_lr(self) -> Rates:
        """The rates of this epoch, one per group; inside ``step`` only."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set its rates; call the optimiser's ``step`` first.

        Args:
          epoch: go to this epoch instead (deprecated).

        Warns:
          UserWarning: the optimiser has not stepped yet; its ``step`` was replaced; ``epoch`` was given.
        """
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warn(_OVERRIDDEN, UserWarning)
            elif not getattr(self.optimizer, "_opt_called", False):
                warn(_WRONG_ORDER, UserWarning)
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with raised(self, "_get_lr_called_within_step"):
            self.last_epoch: int = self.last_epoch + 1 if epoch is None else epoch
            closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
            rates = (closed_form or self.get_lr)()
        self._set_rates(rates)

    def _set_rates(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            write(group, "lr", rate)
        self._note_rates(values(self.optimizer, "lr"))

    def _check_inside_step(self) -> None:
        """Warn of ``get_lr`` called by a user, who will have meant ``get_last_lr``."""
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
            )


def _as_now(key: str, value: Any) -> Any:
    """An attribute in a scheduler's state, which later steps leave alone."""
    return [*value] if key == "_last_lr" else value


@contextmanager
def raised(scheduler: LRScheduler, flag: str) -> Iterator[None]:
    setattr(scheduler, flag, True)
    try:
        yield
    finally:
        setattr(scheduler, flag, False)


def _watch_steps(optimizer: Optimizer) -> None:
    """Let the optimiser note that it has stepped; without holding it, since it holds this."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function: Callable[..., Any] = optimizer.step.__func__  # type: ignore[attr-defined]
    reference = weakref.ref(optimizer)

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        stepping = reference()
        stepping._opt_called = True  # type: ignore[union-attr]
        return function(stepping, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def own(value: Any) -> Any:
    """The value, copied if it could change."""
    return value.clone() if isinstance(value, Tensor) else value


def values(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of each group."""
    return [own(group[key]) for group in optimizer.param_groups]


def write(group: Group, key: str, value: Any) -> None:
    """Set an option; a tensor is filled, so that whoever holds it sees the change."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) and value.dim() != 0 else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A list with an entry per group, from one value for all or from such a list."""
    count = len(optimizer.param_groups)
    entries = value if isinstance(value, list | tuple) else [value] * count
    if len(entries) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(entries)} values, param_groups has {count}."
        )
    return [own(entry) for entry in entries]


class _LRScheduler(LRScheduler):
    """The former name of `LRScheduler`."""
