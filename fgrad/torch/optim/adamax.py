"""Adamax: Adam with the largest gradient in place of the root of the mean square."""

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, moving_average


@frozen
class _InfinityNorm(Update):
    twice = ("exp_inf",)

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_inf")

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        step = state["step"] + 1
        mean = moving_average(state["exp_avg"], grad, n, "beta1")
        largest = ops.maximum(state["exp_inf"] * n["beta2"], ops.abs(grad) + n["eps"])
        rate = n["lr"] / (1 - n["beta1"] ** step.double())
        return param - rate * (mean / largest), {"step": step, "exp_avg": mean, "exp_inf": largest}


class Adamax(UpdateOptimizer):
    """Adamax: Adam on the infinity norm.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      betas: decay factors of the average gradient and of its largest size.
      eps: added to the size of the gradient.
      weight_decay: this multiple of the parameter is added to its gradient.
      foreach: accepted as PyTorch accepts it; a step is one program in any case.
      maximize: go uphill.
      differentiable: let autograd see the step.
      capturable: only on accelerators, as in PyTorch.

    Raises:
      ValueError: an option is out of its range.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Adamax.html
    """

    _rule = _InfinityNorm
    _options = "lr betas eps weight_decay foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, locals())
