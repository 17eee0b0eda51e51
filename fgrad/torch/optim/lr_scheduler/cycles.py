"""Schedulers that move the rates up and down, and the momentum against them."""

import math
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from fgrad.torch.optim.lr_scheduler.scheduler import LRScheduler, Rates, check_optimizer, own, per_group, write
from fgrad.torch.optim.optimizer import Group, Optimizer


class _MomentumCycle(LRScheduler):
    """What both share: an optimiser's momentum, or its first decay factor, moves between two bounds."""

    use_beta1: bool

    def _start_momentum(self, base_momentums: list[Any], max_momentums: list[Any], last_epoch: int) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        if last_epoch == -1:
            for base, largest, group in zip(base_momentums, max_momentums, self.optimizer.param_groups, strict=True):
                self._set_momentum(group, largest)
                group["max_momentum"] = largest
                group["base_momentum"] = base

    def _set_momentum(self, group: Group, momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_MomentumCycle):
    """Move the rates between two bounds, in triangles.

    Args:
      optimizer: whose learning rates it sets.
      base_lr: the lower bound, one for all groups or a list.
      max_lr: the upper bound, one for all groups or a list.
      step_size_up: steps from the lower to the upper bound.
      step_size_down: steps back, as many as up if not given.
      mode: ``"triangular"``; ``"triangular2"``, whose height halves with each cycle; or ``"exp_range"``, whose height
        is multiplied by ``gamma`` at each step.
      gamma: for ``"exp_range"``.
      scale_fn: a function for the height, instead of a mode.
      scale_mode: whether ``scale_fn`` is asked with the count of cycles (``"cycle"``) or steps (``"iterations"``).
      cycle_momentum: move the momentum the other way.
      base_momentum: the lower bound of the momentum, one for all groups or a list.
      max_momentum: the upper bound of the momentum, one for all groups or a list.
      last_epoch: the step to resume after, or -1 to begin.

    Raises:
      TypeError: ``optimizer`` is none.
      ValueError: the mode is unknown, a list has the wrong length, or the optimiser has no momentum to move.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1.0, max_lr=2.0, step_size_up=2)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [1.5]
    [2.0]
    [1.5]
    [1.0]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.CyclicLR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                write(group, "lr", rate)
        self.max_lrs: list[Any] = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size: float = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio: float = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums: list[Any] = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums: list[Any] = per_group("max_momentum", optimizer, max_momentum)
            self._start_momentum(self.base_momentums, self.max_momentums, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is None:
            scales: dict[str, tuple[Callable[[float], float], Any]] = {
                "triangular": (_same_height, "cycle"),
                "triangular2": (_halved_height, "cycle"),
                "exp_range": (partial(pow, self.gamma), "iterations"),
            }
            self.scale_mode: str
            self._scale_fn_ref, self.scale_mode = scales[self.mode]

    def scale_fn(self, x: float) -> float:
        """The height of the triangle in a cycle or at a step."""
        return (self._scale_fn_custom or self._scale_fn_ref)(x)

    def get_lr(self) -> Rates:
        """The rates of this step, one per group; inside ``step`` only. The momentum is set besides."""
        self._check_inside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for base, largest, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._set_momentum(group, largest - (largest - base) * height * scale)
        return [
            base + (largest - base) * height * scale for base, largest in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser and functions; of a callable object, its attributes."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        custom = state["_scale_fn_custom"]
        if custom is not None:
            state["_scale_fn_custom"] = None if isinstance(custom, types.FunctionType) else custom.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, with attributes for a callable object."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])
        self._init_scale_fn()


def _same_height(cycle: float) -> float:
    return 1.0


def _halved_height(cycle: float) -> float:
    return 1 / (2.0 ** (cycle - 1))


def _along_cosine(start: Any, end: Any, fraction: float) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * fraction) + 1)


def _along_line(start: Any, end: Any, fraction: float) -> Any:
    return (end - start) * fraction + start


def _phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    return {
        "end_step": end_step,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


class OneCycleLR(_MomentumCycle):
    """Move the rates up to a maximum and down to nearly nothing, once.

    Args:
      optimizer: whose learning rates it sets.
      max_lr: the maximum, one for all groups or a list.
      total_steps: steps in all.
      epochs, steps_per_epoch: whose product is taken where ``total_steps`` is not given.
      pct_start: the share of the steps that lead up.
      anneal_strategy: ``"cos"`` or ``"linear"``.
      cycle_momentum: move the momentum the other way.
      base_momentum: the lower bound of the momentum, one for all groups or a list.
      max_momentum: the upper bound of the momentum, one for all groups or a list.
      div_factor: the first rate is the maximum divided by this.
      final_div_factor: the last rate is the first divided by this.
      three_phase: go down to the first rate in as many steps as up, and only then to the last.
      last_epoch: the step to resume after, or -1 to begin.

    Raises:
      TypeError: ``optimizer`` is none.
      ValueError: an argument is out of its range or missing; at ``step``, there were ``total_steps`` already.

    >>> import fgrad.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(
    ...     optimizer, max_lr=2.0, total_steps=5, pct_start=0.6, div_factor=4.0, anneal_strategy="linear"
    ... )
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [1.25]
    [2.0]
    [1.000025]

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.lr_scheduler.OneCycleLR.html
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps: int = _count_steps(total_steps, epochs, steps_per_epoch)
        up = "initial_lr", "max_lr", "max_momentum", "base_momentum"
        top = float(pct_start * self.total_steps) - 1
        end = self.total_steps - 1
        if three_phase:
            self._schedule_phases = [
                _phase(top, *up),
                _phase(
                    float(2 * pct_start * self.total_steps) - 2,
                    "max_lr",
                    "initial_lr",
                    "base_momentum",
                    "max_momentum",
                ),
                _phase(end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                _phase(top, *up),
                _phase(end, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        largest = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(largest, optimizer.param_groups, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            max_momentums = per_group("max_momentum", optimizer, max_momentum)
            base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self._start_momentum(base_momentums, max_momentums, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates of this step, one per group; inside ``step`` only. The momentum is set besides."""
        self._check_inside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        start = 0.0
        phases = iter(self._schedule_phases)
        phase = next(phases)
        for following in phases:
            if self.last_epoch <= phase["end_step"]:
                break
            start, phase = phase["end_step"], following
        fraction = (self.last_epoch - start) / (phase["end_step"] - start)
        along = _along_cosine if self._anneal_func_type == "cos" else _along_line
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(own(along(group[phase["start_lr"]], group[phase["end_lr"]], fraction)))
            if self.cycle_momentum:
                momentum = along(group[phase["start_momentum"]], group[phase["end_momentum"]], fraction)
                self._set_momentum(group, momentum)
        return rates


def _count_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        return _positive(total_steps, "total_steps")
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return _positive(epochs, "epochs") * _positive(steps_per_epoch, "steps_per_epoch")


def _positive(count: int, name: str) -> int:
    if not isinstance(count, int) or count <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {count}")
    return count
