"""Rprop: each element has its own step size, and of the gradient only the sign counts."""

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_options
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, scalar


@frozen
class _SignAgreement(Update):
    twice = ("step_size",)

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "prev", "step_size")

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        agreement = ops.sign(grad * state["prev"])
        factor = ops.where(agreement > 0, n["grow"], ops.where(agreement < 0, n["shrink"], agreement + 1))
        size = ops.clamp(state["step_size"] * factor, n["smallest"], n["largest"])
        # where the sign has changed, this step stands still and the next one compares with nothing
        kept = ops.where(agreement < 0, 0.0, grad)
        return param - ops.sign(kept) * size, {"step": state["step"] + 1, "prev": kept, "step_size": size}


class Rprop(UpdateOptimizer):
    """Resilient propagation: steps grow while the sign of the gradient stays and shrink when it changes.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: the first step size, a number or a tensor with one element.
      etas: the factors by which a step shrinks and grows.
      step_sizes: the smallest and the largest step.
      capturable: only on accelerators, as in PyTorch.
      foreach: accepted as PyTorch accepts it; a step is one program in any case.
      maximize: go uphill.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Rprop.html
    """

    _rule = _SignAgreement
    _options = "lr etas step_sizes foreach maximize differentiable capturable"
    _inputs = ()

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, locals())

    def _initial_state(self, group: Group, param: Tensor) -> State:
        first = float(group["lr"])
        return {
            "step": scalar(0.0),
            "prev": ops.zeros_like(param),
            "step_size": ops.full_like(param.grad, complex(first, first) if param.is_complex() else first),
        }

    def _update(self, group: Group) -> Update:
        return _SignAgreement(maximize=group["maximize"])

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]
        return {"shrink": shrink, "grow": grow, "smallest": float(smallest), "largest": float(largest)}
