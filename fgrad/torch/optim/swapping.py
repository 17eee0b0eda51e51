"""Lending an optimiser other parameters and another state for a while."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.optim.optimizer import Group, Optimizer

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within a ``with`` block, let an optimiser work on other parameters, with another state.

    Args:
      optimizer: the optimiser; it must have a state already.
      swapin_parameters: the parameters, in the order of its groups.
      swapin_optim_state: what ``state_dict`` of a like optimiser gave.

    Raises:
      RuntimeError: the parameters or the state do not fit the optimiser.

    >>> import fgrad.torch as torch
    >>> w = torch.ones(1, requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> other = torch.full((1,), 3.0, requires_grad=True)
    >>> other.grad = torch.ones(1)
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> other, w
    (tensor([2.2500], requires_grad=True), tensor([0.5000], requires_grad=True))

    Source: https://docs.pytorch.org/docs/2.13/optim.html
    """
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(swapin_optim_state, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    state = _checked_state(swapin_optim_state.get("state"))
    groups = _checked_groups(optimizer, swapin_optim_state.get("param_groups"))
    parameters = _distributed(list(swapin_parameters.values()), groups)
    known = {number for group in groups for number in group["params"]}
    unknown = [key for key in state if key not in known]
    if unknown:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter ids from "
            f"param_groups[*]['params']; got extra keys {unknown!r}."
        )

    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    lent: defaultdict[Any, Any] = defaultdict(dict)
    try:
        for live, group, params in zip(optimizer.param_groups, groups, parameters, strict=True):
            live.update({**group, "params": params})
            for param, number in zip(params, group["params"], strict=True):
                lent[param] = dict(state.get(number, {}))
        optimizer.state = lent
        yield
    finally:
        for live, own in zip(optimizer.param_groups, own_groups, strict=True):
            live.clear()
            live.update(own)
        optimizer.state = own_state


def _checked_state(state: Any) -> dict[Any, Any]:
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param "
            f"state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(f"{_NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids.")
    if any(isinstance(key, int) and not isinstance(value, dict) for key, value in state.items()):
        raise RuntimeError(f"{_NAME} requires per-parameter optimizer state entries to be dictionaries.")
    return state


def _checked_groups(optimizer: Optimizer, groups: Any) -> list[Group]:
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, got "
            f"{type(groups).__name__}."
        )
    if len(optimizer.param_groups) != len(groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    for i, (live, group) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        if not isinstance(group, dict):
            raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
        numbers = group.get("params")
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries keyed by packed "
                "parameter ids."
            )
        if len(live["params"]) != len(numbers):
            raise RuntimeError(
                f"swapin_optim_state param group {i} has a different number of params than the live optimizer param "
                "group."
            )
        only_swapped, only_live = [k for k in group if k not in live], [k for k in live if k not in group]
        if only_swapped or only_live:
            raise RuntimeError(
                f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the live optimizer "
                f"group keys for group {i}. Keys only in swap-in: {only_swapped}. Keys only in live: {only_live}."
            )
    return groups


def _distributed(parameters: list[Tensor], groups: list[Group]) -> list[list[Tensor]]:
    """The parameters of each group; what is left over is not used."""
    lists = []
    start = 0
    for group in groups:
        end = start + len(group["params"])
        if end > len(parameters):
            raise RuntimeError(
                f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering."
            )
        lists.append(parameters[start:end])
        start = end
    return lists
