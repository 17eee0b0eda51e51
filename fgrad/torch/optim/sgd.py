"""Stochastic gradient descent, with momentum."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer


@frozen
class _Descent(Update):
    twice = ("momentum_buffer",)

    momentum: bool = False
    dampening: bool = False
    nesterov: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        if not self.momentum:
            return param - n["lr"] * grad, {}
        if "momentum_buffer" in state:
            entering = grad * n["1-dampening"] if self.dampening else grad
            velocity = state["momentum_buffer"] * n["momentum"] + entering
        else:
            velocity = grad.detach().clone()
        direction = grad + velocity * n["momentum"] if self.nesterov else velocity
        return param - n["lr"] * direction, {"momentum_buffer": velocity}


class SGD(UpdateOptimizer):
    """Stochastic gradient descent, with or without momentum.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      momentum: how much of the last step's velocity is kept.
      dampening: how much of the gradient does not enter the velocity.
      weight_decay: this multiple of the parameter is added to its gradient.
      nesterov: look ahead along the velocity; needs momentum and no dampening.
      maximize: go uphill.
      foreach, fused: accepted as PyTorch accepts them; a step is one program in any case.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.5000, 1.0000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.SGD.html
    """

    _rule = _Descent
    _options = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
    _inputs = ("lr", "weight_decay", "momentum")
    later_options: ClassVar[dict[str, Any]] = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_options(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, locals())

    def _state_before(self, group: Group, param: Tensor) -> State:
        # the first velocity is the gradient itself, which dampening does not touch
        known = group["momentum"] != 0 and group["dampening"] == 0
        return {"momentum_buffer": ops.zeros_like(param)} if known else {}

    def _initial_state(self, group: Group, param: Tensor) -> State:
        return {}

    def _update(self, group: Group) -> Update:
        return self._variant(
            group,
            momentum=group["momentum"] != 0,
            dampening=group["dampening"] != 0,
            nesterov=group["nesterov"],
        )

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        return {**super()._numbers(group), "1-dampening": 1 - group["dampening"]}
