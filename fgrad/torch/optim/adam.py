"""Adam: steps scaled by running averages of the gradient and of its square."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, moving_average


@frozen
class _Moments(Update):
    twice = ("exp_avg_sq",)

    amsgrad: bool = False
    differentiable: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if self.amsgrad else []))

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        step = state["step"] + 1
        # where autograd watches, PyTorch leaves the count in single precision
        t = step if self.differentiable else step.double()
        mean = moving_average(state["exp_avg"], grad, n, "beta1")
        square = moving_average(state["exp_avg_sq"], grad * grad, n, "beta2")
        new = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
        if self.amsgrad:
            square = new["max_exp_avg_sq"] = ops.maximum(state["max_exp_avg_sq"], square)
        scale = ops.sqrt(square) / ops.sqrt(1 - n["beta2"] ** t) + n["eps"]
        return param - (n["lr"] / (1 - n["beta1"] ** t)) * (mean / scale), new


class Adam(UpdateOptimizer):
    """Adam: adaptive moment estimation.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      betas: decay factors of the averages of the gradient and of its square, two floats or two tensors.
      eps: added to the denominator.
      weight_decay: this multiple of the parameter is added to its gradient.
      amsgrad: divide by the largest average of squares so far.
      foreach, fused: accepted as PyTorch accepts them; a step is one program in any case.
      maximize: go uphill.
      capturable: only on accelerators, as in PyTorch.
      differentiable: let autograd see the step.
      decoupled_weight_decay: shrink the parameter instead, which is AdamW.

    Raises:
      ValueError: an option is out of its range.
      RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Adam.html
    """

    _rule = _Moments
    _options = (
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"
    )
    later_options: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        each = bool(foreach) and not capturable
        if isinstance(lr, Tensor) and each:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        if not any(all(isinstance(beta, kind) for beta in betas[:2]) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor) and each:
                raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
            if isinstance(beta, Tensor) and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        betas = tuple(beta.squeeze() if isinstance(beta, Tensor) and beta.dim() else beta for beta in betas)  # type: ignore[assignment]
        super().__init__(params, locals())

    def _check(self, group: Group, params: list[Tensor]) -> None:
        if isinstance(group["lr"], Tensor) and group["foreach"] and not group["capturable"]:
            raise RuntimeError("lr as a Tensor is not supported for capturable=False and foreach=True")
        super()._check(group, params)

    def _update(self, group: Group) -> Update:
        return self._variant(group, amsgrad=group["amsgrad"], differentiable=group["differentiable"])
