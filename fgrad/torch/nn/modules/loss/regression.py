"""Losses of real numbers."""

from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.loss.base import _Loss


class L1Loss(_Loss):
    """The absolute difference.

    >>> import fgrad.torch as torch
    >>> torch.nn.L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor(1.5000)

    Source: `torch.nn.L1Loss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.L1Loss.html>`_.
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared difference.

    >>> import fgrad.torch as torch
    >>> torch.nn.MSELoss(reduction="sum")(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    tensor(9.)

    Source: `torch.nn.MSELoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MSELoss.html>`_.
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``d**2 / (2 * beta)`` for differences ``d`` below ``beta``, else ``d - beta / 2``.

    >>> import fgrad.torch as torch
    >>> torch.nn.SmoothL1Loss(reduction="none")(torch.tensor([0.5, 3.0]), torch.zeros(2))
    tensor([0.1250, 2.5000])

    Source: `torch.nn.SmoothL1Loss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.SmoothL1Loss.html>`_.
    """

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``d**2 / 2`` for differences ``d`` up to ``delta``, else ``delta * (d - delta / 2)``.

    Raises:
      TypeError: ``delta`` is not a number.

    >>> import fgrad.torch as torch
    >>> torch.nn.HuberLoss(reduction="none", delta=2.0)(torch.tensor([1.0, 3.0]), torch.zeros(2))
    tensor([0.5000, 4.0000])

    Source: `torch.nn.HuberLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.HuberLoss.html>`_.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of a Poisson distribution with the (logarithm of the) mean ``log_input``.

    >>> import fgrad.torch as torch
    >>> torch.nn.PoissonNLLLoss()(torch.zeros(1), torch.ones(1))
    tensor(1.)

    Source: `torch.nn.PoissonNLLLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.PoissonNLLLoss.html>`_.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Any = None,
        eps: float = 1e-8,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Any, target: Any) -> Any:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood of a normal distribution with mean ``input`` and variance ``var``.

    >>> import fgrad.torch as torch
    >>> torch.nn.GaussianNLLLoss()(torch.zeros(1), torch.ones(1), torch.ones(1))
    tensor(0.5000)

    Source: `torch.nn.GaussianNLLLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GaussianNLLLoss.html>`_.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)
