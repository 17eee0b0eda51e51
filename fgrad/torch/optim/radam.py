"""RAdam: Adam that adapts only once the variance of its estimates is known to be small."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, moving_average


@frozen
class _RectifiedMoments(Update):
    twice = ("exp_avg_sq",)

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq")

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        step = state["step"] + 1
        t = step.double()
        mean = moving_average(state["exp_avg"], grad, n, "beta1")
        square = moving_average(state["exp_avg_sq"], grad * grad, n, "beta2")
        correction2 = 1 - n["beta2"] ** t
        length = n["rho_inf"] - 2 * t * n["beta2"] ** t / correction2
        rectified = length > 5.0
        # the root is taken where it is real, so that nothing invalid reaches a derivative
        ratio = (length - 4) * (length - 2) * n["rho_inf"] / (n["rho_inf_product"] * length)
        rectification = ops.sqrt(ops.where(rectified, ratio, ops.ones_like(ratio)))
        adaptive = rectification * ops.sqrt(correction2) / (ops.sqrt(square) + n["eps"])
        factor = ops.where(rectified, adaptive, ops.ones_like(adaptive))
        direction = mean / (1 - n["beta1"] ** t)
        return param - n["lr"] * direction * factor, {"step": step, "exp_avg": mean, "exp_avg_sq": square}


class RAdam(UpdateOptimizer):
    """RAdam: Adam with a rectified variance, which begins as plain momentum.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      betas: decay factors of the averages of the gradient and of its square.
      eps: added to the denominator.
      weight_decay: this multiple of the parameter is added to its gradient.
      decoupled_weight_decay: shrink the parameter instead, as in AdamW.
      foreach: accepted as PyTorch accepts it; a step is one program in any case.
      maximize: go uphill.
      capturable: only on accelerators, as in PyTorch.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([w], lr=0.25)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.0000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.RAdam.html
    """

    _rule = _RectifiedMoments
    _options = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
    later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, locals())

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        rho_inf = 2 / (1 - group["betas"][1]) - 1
        return {**super()._numbers(group), "rho_inf": rho_inf, "rho_inf_product": (rho_inf - 4) * (rho_inf - 2)}
