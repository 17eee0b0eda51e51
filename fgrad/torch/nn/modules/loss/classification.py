"""Losses of classes and probabilities."""

from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.loss.base import _Loss, _WeightedLoss


class NLLLoss(_WeightedLoss):
    """The negative log-probability of the target class, given log-probabilities.

    Arguments:
      weight: of each class.
      ignore_index: a target that does not count.

    >>> import fgrad.torch as torch
    >>> torch.nn.NLLLoss()(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
    tensor(2.)

    Source: `torch.nn.NLLLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.NLLLoss.html>`_.
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The deprecated name of ``NLLLoss``.

    Source: `torch.nn.NLLLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.NLLLoss.html>`_.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
        )
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """The negative log-probability of the target class, given logits; the target may be probabilities too.

    Arguments:
      weight: of each class.
      ignore_index: a target that does not count.
      label_smoothing: how much of the target is spread evenly over all classes.

    >>> import fgrad.torch as torch
    >>> torch.nn.CrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)

    Source: `torch.nn.CrossEntropyLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CrossEntropyLoss.html>`_.
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of ``target`` from the log-probabilities ``input``.

    Arguments:
      reduction: also ``"batchmean"``, the sum over the size of the batch, which is what the name says.
      log_target: whether the target is log-probabilities too.

    >>> import fgrad.torch as torch
    >>> torch.nn.KLDivLoss(reduction="batchmean")(torch.zeros(1, 1), torch.ones(1, 1))
    tensor(0.)

    Source: `torch.nn.KLDivLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.KLDivLoss.html>`_.
    """

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Any:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """The cross entropy of a probability and a target between 0 and 1.

    >>> import fgrad.torch as torch
    >>> torch.nn.BCELoss()(torch.tensor([0.5]), torch.tensor([1.0]))
    tensor(0.6931)

    Source: `torch.nn.BCELoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.BCELoss.html>`_.
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """``BCELoss`` of the sigmoid of ``input``, computed without overflow.

    Arguments:
      weight: of each sample.
      pos_weight: of the positive target, for each class.

    >>> import fgrad.torch as torch
    >>> torch.nn.BCEWithLogitsLoss()(torch.zeros(1), torch.ones(1))
    tensor(0.6931)

    Source: `torch.nn.BCEWithLogitsLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.BCEWithLogitsLoss.html>`_.
    """

    weight: Any
    pos_weight: Any

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets 1 and -1.

    >>> import fgrad.torch as torch
    >>> torch.nn.SoftMarginLoss()(torch.zeros(1), torch.ones(1))
    tensor(0.6931)

    Source: `torch.nn.SoftMarginLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.SoftMarginLoss.html>`_.
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The hinge loss of every target class against every other.

    >>> import fgrad.torch as torch
    >>> torch.nn.MultiLabelMarginLoss()(torch.tensor([0.5, 1.0]), torch.tensor([1, -1]))
    tensor(0.2500)

    Source: `torch.nn.MultiLabelMarginLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiLabelMarginLoss.html>`_.
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over the classes of ``BCEWithLogitsLoss``.

    >>> import fgrad.torch as torch
    >>> torch.nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 2), torch.ones(1, 2))
    tensor(0.6931)

    Source: `torch.nn.MultiLabelSoftMarginLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiLabelSoftMarginLoss.html>`_.
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The hinge loss, to the power of ``p``, of the target class against every other.

    Raises:
      ValueError: ``p`` is neither 1 nor 2, or ``weight`` no vector.

    >>> import fgrad.torch as torch
    >>> torch.nn.MultiMarginLoss()(torch.tensor([[0.5, 1.0]]), torch.tensor([1]))
    tensor(0.2500)

    Source: `torch.nn.MultiMarginLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MultiMarginLoss.html>`_.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Any:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )
