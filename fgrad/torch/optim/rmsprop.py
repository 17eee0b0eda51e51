"""RMSprop: steps divided by a running root mean square of the gradient."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_learning_rate, check_not_negative
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Decay, Numbers, State, Update, UpdateOptimizer, decays, moving_average, scalar


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
        check_learning_rate(lr)
        check_not_negative(eps, "Invalid epsilon value: {}")
        check_not_negative(momentum, "Invalid momentum value: {}")
        check_not_negative(weight_decay, "Invalid weight_decay value: {}")
        check_not_negative(alpha, "Invalid alpha value: {}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, group: Group, param: Tensor) -> State:
        state = {"step": scalar(0.0), "square_avg": ops.zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = ops.zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = ops.zeros_like(param)
        return state

    def _update(self, group: Group) -> Update:
        return _RootMeanSquare(
            maximize=group["maximize"],
            decay=Decay.of(group["weight_decay"]),
            momentum=group["momentum"] > 0,
            centered=group["centered"],
        )

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        return {
            "lr": group["lr"],
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "momentum": group["momentum"],
            **decays(alpha=group["alpha"]),
        }
