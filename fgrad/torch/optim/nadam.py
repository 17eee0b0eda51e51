"""NAdam: Adam with Nesterov momentum."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, moving_average, scalar


@frozen
class _NesterovMoments(Update):
    twice = ("exp_avg_sq",)

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "mu_product", "exp_avg", "exp_avg_sq")

    @property
    def writes(self) -> int:
        return super().writes + 1

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        step = state["step"] + 1
        t = step.double()

        def momentum(t: Tensor) -> Tensor:
            return n["beta1"] * (1.0 - 0.5 * 0.96 ** (t * n["momentum_decay"]))

        now, later = momentum(t), momentum(t + 1)
        product = state["mu_product"] * now.to(state["mu_product"].dtype)
        so_far = product.double()
        mean = moving_average(state["exp_avg"], grad, n, "beta1")
        square = moving_average(state["exp_avg_sq"], grad * grad, n, "beta2")
        scale = ops.sqrt(square / (1 - n["beta2"] ** t)) + n["eps"]
        param = param - (n["lr"] * (1.0 - now) / (1.0 - so_far)) * (grad / scale)
        param = param - (n["lr"] * later / (1.0 - so_far * later)) * (mean / scale)
        return param, {"step": step, "mu_product": product, "exp_avg": mean, "exp_avg_sq": square}


class NAdam(UpdateOptimizer):
    """NAdam: Adam that looks ahead along its momentum.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      betas: decay factors of the averages of the gradient and of its square.
      eps: added to the denominator.
      weight_decay: this multiple of the parameter is added to its gradient.
      momentum_decay: how fast the momentum grows to ``betas[0]``.
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
    >>> optimizer = torch.optim.NAdam([w], lr=0.5)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     w.square().sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([ 0.2202, -1.1366], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.NAdam.html
    """

    _rule = _NesterovMoments
    _options = (
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"
    )
    _inputs = ("lr", "eps", "weight_decay", "momentum_decay")
    later_options: ClassVar[dict[str, Any]] = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }
    scalars: ClassVar[tuple[str, ...]] = ("step", "mu_product")
    captured: ClassVar[str] = "params, mu_products and state_steps"

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, locals())

    def _initial_state(self, group: Group, param: Tensor) -> State:
        return {**super()._initial_state(group, param), "mu_product": scalar(1.0)}
