"""Muon: momentum whose matrices are made orthogonal before each step."""

import math
from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_learning_rate, check_not_negative
from fgrad.torch.optim.optimizer import Group, Parameters
from fgrad.torch.optim.update import Decay, Numbers, State, Update, UpdateOptimizer, moving_average


@frozen
class _OrthogonalMomentum(Update):
    nesterov: bool = True
    coefficients: tuple[float, ...] = ()
    iterations: int = 5
    match_adamw: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        velocity = moving_average(state["momentum_buffer"], grad, n, "momentum")
        direction = moving_average(velocity, grad, n, "momentum") if self.nesterov else velocity
        rows, columns = param.shape
        ratio = 0.2 * math.sqrt(max(rows, columns)) if self.match_adamw else math.sqrt(max(1, rows / columns))
        return param - n["lr"] * ratio * self.orthogonal(direction, n["eps"]), {"momentum_buffer": velocity}

    def orthogonal(self, matrix: Tensor, eps: Any) -> Tensor:
        """An orthogonal matrix near the given one, by Newton-Schulz iterations in bfloat16."""
        a, b, c = self.coefficients
        tall = matrix.shape[0] > matrix.shape[1]
        x = matrix.bfloat16()
        if tall:
            x = x.T
        x = x / ops.clamp(x.norm(), min=eps)
        for _ in range(self.iterations):
            gram = x @ x.T
            x = ops.addmm(x, ops.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x.T if tall else x


class Muon(UpdateOptimizer):
    """Muon: momentum orthogonalized by Newton-Schulz, for the matrices of hidden layers.

    Args:
      params: parameters with two dimensions, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate.
      weight_decay: ``lr * weight_decay`` is what a parameter loses of itself in a step.
      momentum: decay factor of the average gradient.
      nesterov: look ahead along the average.
      ns_coefficients: the three coefficients of the iteration.
      eps: the smallest norm to divide by.
      ns_steps: how many iterations.
      adjust_lr_fn: how the rate depends on the shape: ``"original"`` or ``"match_rms_adamw"``.

    Raises:
      ValueError: an option is out of its range, or a parameter has not two dimensions.
      RuntimeError: at the step, a parameter is complex.

    >>> import fgrad.torch as torch
    >>> w = torch.eye(2, requires_grad=True)
    >>> optimizer = torch.optim.Muon([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w.diagonal().lt(1).all()
    tensor(True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Muon.html
    """

    _rule = _OrthogonalMomentum
    _options = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
    _inputs = ("lr", "eps")
    _factors = ("momentum",)
    later_options: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_learning_rate(lr, "Learning rate should be >= 0 but is: {}")
        check_not_negative(momentum, "momentum should be >= 0 but is: {}")
        check_not_negative(weight_decay, "weight decay should be >= 0 but is: {}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, locals())
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    def _check(self, group: Group, params: list[Tensor]) -> None:
        if any(param.is_complex() for param in params):
            raise RuntimeError("Muon does not support complex parameters")
        if any(param.dim() != 2 for param in params):
            raise ValueError("Param gradient must be a 2D matrix")
        if group["ns_steps"] >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(group["ns_coefficients"]) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")

    def _initial_state(self, group: Group, param: Tensor) -> State:
        return {"momentum_buffer": ops.zeros_like(param.grad)}

    def _update(self, group: Group) -> Update:
        return _OrthogonalMomentum(
            decay=Decay.DECOUPLED,
            nesterov=group["nesterov"],
            coefficients=tuple(group["ns_coefficients"]),
            iterations=group["ns_steps"],
            match_adamw=group["adjust_lr_fn"] == "match_rms_adamw",
        )

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        return {**super()._numbers(group), "retention": 1 - group["lr"] * group["weight_decay"]}
