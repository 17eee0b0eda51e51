"""Adafactor: the average square of a matrix's gradient kept as its row and column means."""

from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_learning_rate, check_not_negative
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Numbers, State, Update, UpdateOptimizer, scalar


@frozen
class _FactoredSquares(Update):
    decays: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("step", "row_var", "col_var", "variance")

    @property
    def writes(self) -> int:
        return 2 if self.decays else 1

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        eps1 = n.get("eps1", finfo(param.dtype).eps)
        step = state["step"] + 1
        t = step.double()
        fresh = t ** n["beta2_decay"]
        new = {"step": step}

        def average(name: str, value: Tensor) -> Tensor:
            new[name] = state[name] * (1 - fresh) + value * fresh
            return new[name]

        square = grad * grad
        if grad.dim() > 1:
            rows = average("row_var", square.mean(dim=-1, keepdim=True))
            columns = average("col_var", square.mean(dim=-2, keepdim=True))
            variance = rows @ columns / ops.clamp(rows.mean(dim=-2, keepdim=True), min=eps1)
        else:
            variance = average("variance", square)
        direction = grad * ops.rsqrt(ops.clamp(variance, min=eps1 * eps1))
        relative = ops.rsqrt(t)
        rate = ops.minimum(relative, ops.ones_like(relative) * n["lr"]) * _at_least(_size(param), n["eps2"])
        kept = param * n["retention"] if self.decays else param
        return kept - direction * (rate / _at_least(_size(direction) / n["d"], 1.0)), new


def _size(x: Tensor) -> Tensor:
    """The root mean square."""
    return ops.sqrt((x * x).mean()).double()


def _at_least(x: Tensor, bound: float | Tensor) -> Tensor:
    return ops.maximum(x, ops.ones_like(x) * bound)


class Adafactor(UpdateOptimizer):
    """Adafactor: adaptive rates with memory for a row and a column of each matrix.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: the largest relative step, and what weight decay is multiplied with.
      beta2_decay: power of the step count with which old squares are forgotten, not above zero.
      eps: the smallest divisor, by default that of the type; and the smallest size of a parameter.
      d: steps larger than this are clipped.
      weight_decay: ``lr * weight_decay`` is what a parameter loses of itself in a step.
      foreach: accepted as PyTorch accepts it; a step is one program in any case.
      maximize: go uphill.

    Raises:
      ValueError: an option is out of its range.
      RuntimeError: at the step, a parameter is complex.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -0.5000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Adafactor.html
    """

    _rule = _FactoredSquares
    _options = "lr beta2_decay eps d weight_decay foreach maximize"
    _inputs = ("lr", "beta2_decay", "d")
    later_options: ClassVar[dict[str, Any]] = {"foreach": None}

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_learning_rate(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            check_not_negative(eps[0], "epsilon1 should be >= 0 but is: {}")
        check_not_negative(eps[1], "epsilon2 should be >= 0 but is: {}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        check_not_negative(weight_decay, "weight_decay should be >= 0 but is: {}")
        super().__init__(params, locals())

    def _check(self, group: Group, params: list[Tensor]) -> None:
        if any(param.is_complex() for param in params):
            raise RuntimeError("Adafactor does not support complex parameters")

    def _initial_state(self, group: Group, param: Tensor) -> State:
        grad = param.grad
        if grad.dim() < 2:
            return {"step": scalar(0.0), "variance": ops.zeros_like(grad)}
        *rest, rows, columns = grad.shape
        return {
            "step": scalar(0.0),
            "row_var": grad.new_zeros([*rest, rows, 1]),
            "col_var": grad.new_zeros([*rest, 1, columns]),
        }

    def _update(self, group: Group) -> Update:
        return _FactoredSquares(maximize=group["maximize"], decays=bool(group["weight_decay"] != 0))

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        eps1, eps2 = group["eps"]
        numbers = {**super()._numbers(group), "eps2": eps2, "retention": 1 - group["lr"] * group["weight_decay"]}
        return numbers if eps1 is None else {**numbers, "eps1": eps1}
