"""Averaged stochastic gradient descent."""

from typing import ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype, float32, get_default_dtype
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, scalar


@frozen
class _Averaging(Update):
    #: the type that PyTorch's Python floats take on before they are written to the state
    number: Dtype = float32

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
            "eta": (n["lr"] / (1 + n["lambd"] * n["lr"] * t) ** n["alpha"]).to(self.number),
            "mu": (1 / ops.maximum(since, ops.ones_like(since))).to(self.number),
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

    _rule = _Averaging
    _options = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
    _inputs = ("lr", "lambd", "alpha", "t0", "weight_decay")
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
        check_options(lr=lr, weight_decay=weight_decay)
        super().__init__(params, locals())

    def _update(self, group: Group) -> Update:
        return self._variant(group, number=get_default_dtype())

    def _initial_state(self, group: Group, param: Tensor) -> State:
        return {**super()._initial_state(group, param), "eta": scalar(float(group["lr"])), "mu": scalar(1.0)}
