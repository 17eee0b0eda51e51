"""SparseAdam, which needs sparse gradients."""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.modes import enable_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.optim.checks import check_betas, check_learning_rate
from fgrad.torch.optim.optimizer import Optimizer, Parameters


class SparseAdam(Optimizer):
    """Adam on sparse gradients; there are none here, so that its step refuses every gradient, as PyTorch refuses a
    dense one.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      betas: decay factors of the averages of the gradient and of its square.
      eps: added to the denominator.
      maximize: go uphill.

    Raises:
      ValueError: an option is out of its range, or a parameter is complex.
      RuntimeError: at the step, a parameter has a gradient, which is dense.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> w.sum().backward()
    >>> torch.optim.SparseAdam([w]).step()
    Traceback (most recent call last):
        ...
    RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.SparseAdam.html
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_learning_rate(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        is_complex = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, param in enumerate(group["params"])
            if param.is_complex()
        ]
        if is_complex:
            raise ValueError(f"Complex params at indices {is_complex}: SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Refuse the gradients that there are.

        Args:
          closure: evaluates the model again and returns the loss.

        Returns:
          What ``closure`` returned.

        Raises:
          RuntimeError: a parameter has a gradient.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if any(param.grad is not None for group in self.param_groups for param in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
