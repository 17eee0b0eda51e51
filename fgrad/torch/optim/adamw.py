"""AdamW: Adam with decoupled weight decay."""

from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.optim.adam import Adam
from fgrad.torch.optim.optimizer import Parameters


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters and leaves the averages alone.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      lr: learning rate, a number or a tensor with one element.
      betas: decay factors of the averages of the gradient and of its square, two floats or two tensors.
      eps: added to the denominator.
      weight_decay: ``lr * weight_decay`` is what a parameter loses of itself in a step.
      amsgrad: divide by the largest average of squares so far.
      maximize: go uphill.
      foreach, fused: accepted as PyTorch accepts them; a step is one program in any case.
      capturable: only on accelerators, as in PyTorch.
      differentiable: let autograd see the step.

    Raises:
      ValueError: an option is out of its range.
      RuntimeError: ``fused`` together with ``foreach`` or ``differentiable``.
      AssertionError: at the step, ``capturable`` for a parameter on the CPU.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.AdamW([w], lr=0.5, weight_decay=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.2500, -1.0000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.AdamW.html
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # a state of Adam that is loaded here becomes one of AdamW
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
