"""Averaged stochastic gradient descent."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_learning_rate, check_not_negative
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Decay, Numbers, State, Update, UpdateOptimizer, scalar


@frozen
class _Averaging(Update):
    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "eta", "mu", "ax")

    @property
    def writes(self) -> int:
        return 2

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        step, eta, mu, average = state["step"] + 1, state["eta"].double(), state["mu"], state["ax"]
        t = step.double()
        param = param * (1 - n["lambd"] * eta) - eta * grad
        average = ops.where(mu == 1, param, average + (param - average) * mu)
        since = t - n["t0"]
        new = {
            "step": step,
            "eta": n["lr"] / (1 + n["lambd"] * n["lr"] * t) ** n["alpha"],
            "mu": 1 / ops.maximum(since, ops.ones_like(since)),
            "ax": average,
        }
        return param, new


class ASGD(UpdateOptimizer):
    """Averaged stochastic gradient descent; the average is in the state as ``"ax"``.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: the first learning rate, a number or a tensor with one element.
      lambd: decay of the parameters and of the rate.
      alpha: power with which the rate falls.
      t0: the step at which averaging begins.
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
    >>> optimizer = torch.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.0000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.ASGD.html
    """

    later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    scalars: ClassVar[tuple[str, ...]] = ("step", "eta", "mu")
    captured: ClassVar[str] = "params, mus, etas, and state_steps"

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, group: Group, param: Tensor) -> State:
        return {
            "step": scalar(0.0),
            "eta": scalar(float(group["lr"])),
            "mu": scalar(1.0),
            "ax": ops.zeros_like(param),
        }

    def _update(self, group: Group) -> Update:
        return _Averaging(maximize=group["maximize"], decay=Decay.of(group["weight_decay"]))

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        return {name: group[name] for name in ("lr", "lambd", "alpha", "t0", "weight_decay")}
