"""Adagrad: a rate that falls with all squared gradients so far."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, scalar


@frozen
class _SumOfSquares(Update):
    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "sum")

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        rate = n["lr"] / (1 + state["step"].double() * n["lr_decay"])
        total = state["sum"] + grad * grad
        new = {"step": state["step"] + 1, "sum": total}
        return param - rate * (grad / (ops.sqrt(total) + n["eps"])), new


class Adagrad(UpdateOptimizer):
    """Adagrad: each parameter's rate is divided by the root of the sum of its squared gradients.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      lr_decay: how fast the rate falls with the count of steps besides.
      weight_decay: this multiple of the parameter is added to its gradient.
      initial_accumulator_value: what the sums begin with.
      eps: added to the denominator.
      foreach, fused: accepted as PyTorch accepts them; a step is one program in any case.
      maximize: go uphill.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Adagrad.html
    """

    _rule = _SumOfSquares
    _options = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
    _inputs = ("lr", "lr_decay", "weight_decay", "eps")
    later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(params, locals())
        # here alone there is state before the first step
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param].update(self._initial_state(group, param))

    def share_memory(self) -> None:
        """Move the sums into shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _initial_state(self, group: Group, param: Tensor) -> State:
        first = self.defaults["initial_accumulator_value"]
        return {
            "step": scalar(0.0),
            "sum": ops.full_like(param, complex(first, first) if param.is_complex() else first),
        }
