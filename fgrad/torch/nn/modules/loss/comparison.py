"""Losses of pairs, triplets and sequences."""

from collections.abc import Callable
from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.distance import PairwiseDistance
from fgrad.torch.nn.modules.loss.base import _Loss


class HingeEmbeddingLoss(_Loss):
    """The distance ``input`` of similar pairs (target 1), and how far the others (-1) fall short of ``margin``.

    >>> import fgrad.torch as torch
    >>> torch.nn.HingeEmbeddingLoss(reduction="none")(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]))
    tensor([0.5000, 0.7500])

    Source: `torch.nn.HingeEmbeddingLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.HingeEmbeddingLoss.html>`_.
    """

    def __init__(
        self, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Any:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """One minus the cosine of similar pairs (target 1), and how far that of the others (-1) exceeds ``margin``.

    >>> import fgrad.torch as torch
    >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> torch.nn.CosineEmbeddingLoss()(a, b, torch.tensor([1]))
    tensor(1.)

    Source: `torch.nn.CosineEmbeddingLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CosineEmbeddingLoss.html>`_.
    """

    def __init__(
        self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """How far the first input is from being larger (target 1) or smaller (-1) than the second by ``margin``.

    >>> import fgrad.torch as torch
    >>> torch.nn.MarginRankingLoss()(torch.zeros(1), torch.ones(1), torch.ones(1))
    tensor(1.)

    Source: `torch.nn.MarginRankingLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MarginRankingLoss.html>`_.
    """

    def __init__(
        self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """How far the anchor is from being nearer to the positive than to the negative by ``margin``.

    Raises:
      ValueError: ``margin`` is not positive.

    >>> import fgrad.torch as torch
    >>> a, b, c = torch.zeros(1, 1), torch.ones(1, 1), torch.full((1, 1), 3.0)
    >>> torch.nn.TripletMarginLoss(margin=3.0)(a, b, c)
    tensor(1.)

    Source: `torch.nn.TripletMarginLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.TripletMarginLoss.html>`_.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """``TripletMarginLoss`` with a custom distance.

    Raises:
      ValueError: ``margin`` is not positive.

    >>> import fgrad.torch as torch
    >>> loss = torch.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
    >>> loss(torch.zeros(1, 1), torch.ones(1, 1), torch.ones(1, 1))
    tensor(1.)

    Source: `torch.nn.TripletMarginWithDistanceLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.TripletMarginWithDistanceLoss.html>`_.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """The negative log-probability of a sequence of labels, over all its alignments with a longer input (Graves, 2006).

    Arguments:
      blank: the label for nothing.
      zero_infinity: whether the loss of targets that are too long is 0 instead of infinite.

    >>> import fgrad.torch as torch
    >>> log_probs = torch.zeros(3, 1, 2).log_softmax(2)
    >>> torch.nn.CTCLoss()(log_probs, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
    tensor(0.2877)

    Source: `torch.nn.CTCLoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CTCLoss.html>`_.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
