"""Adadelta: steps in the units of the parameters."""

from typing import ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, moving_average


@frozen
class _UnitCorrection(Update):
    twice = ("square_avg", "acc_delta")

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "square_avg", "acc_delta")

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        square = moving_average(state["square_avg"], grad * grad, n, "rho")
        delta = ops.sqrt(state["acc_delta"] + n["eps"]) / ops.sqrt(square + n["eps"]) * grad
        accumulated = moving_average(state["acc_delta"], delta * delta, n, "rho")
        new = {"step": state["step"] + 1, "square_avg": square, "acc_delta": accumulated}
        return param - n["lr"] * delta, new


class Adadelta(UpdateOptimizer):
    """Adadelta: an adaptive rate from running averages of squared gradients and of squared steps.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: what each step is multiplied with, a number or a tensor with one element.
      rho: decay factor of both averages.
      eps: added under both roots.
      weight_decay: this multiple of the parameter is added to its gradient.
      foreach: accepted as PyTorch accepts it; a step is one program in any case.
      capturable: only on accelerators, as in PyTorch.
      maximize: go uphill.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adadelta([w], lr=100.0)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.6838, -1.6838], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Adadelta.html
    """

    _rule = _UnitCorrection
    _options = "lr rho eps weight_decay maximize capturable foreach differentiable"
    _factors = ("rho",)
    captures_on_xla: ClassVar[bool] = False

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_options(eps=eps, weight_decay=weight_decay)
        super().__init__(params, locals())
