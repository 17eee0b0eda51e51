"""RMSprop: steps divided by a running root mean square of the gradient."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, moving_average


@frozen
class _RootMeanSquare(Update):
    twice = ("square_avg", "momentum_buffer")

    momentum: bool = False
    centered: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return (
            "step",
            "square_avg",
            *(["momentum_buffer"] if self.momentum else []),
            *(["grad_avg"] if self.centered else []),
        )

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        square = moving_average(state["square_avg"], grad * grad, n, "alpha")
        new = {"step": state["step"] + 1, "square_avg": square}
        if self.centered:
            mean = new["grad_avg"] = moving_average(state["grad_avg"], grad, n, "alpha")
            square = square - mean * mean
        direction = grad / (ops.sqrt(square) + n["eps"])
        if self.momentum:
            direction = new["momentum_buffer"] = state["momentum_buffer"] * n["momentum"] + direction
        return param - n["lr"] * direction, new


class RMSprop(UpdateOptimizer):
    """RMSprop: the gradient divided by the root of its average square.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      alpha: decay factor of the averages.
      eps: added to the denominator.
      weight_decay: this multiple of the parameter is added to its gradient.
      momentum: how much of the last step is kept.
      centered: divide by an estimate of the standard deviation instead.
      capturable: only on accelerators, as in PyTorch.
      foreach: accepted as PyTorch accepts it; a step is one program in any case.
      maximize: go uphill.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([w], lr=0.05)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.RMSprop.html
    """

    _rule = _RootMeanSquare
    _options = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
    _inputs = ("lr", "eps", "weight_decay", "momentum")
    _factors = ("alpha",)
    later_options: ClassVar[dict[str, Any]] = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, locals())

    def _update(self, group: Group) -> Update:
        return self._variant(group, momentum=group["momentum"] > 0, centered=group["centered"])
