"""The base of all losses: how those of the samples are reduced.

The argument ``reduction`` is ``"mean"``, ``"sum"``, or ``"none"`` for the loss of each sample.  ``size_average`` and
``reduce`` are its deprecated predecessors.
"""

from typing import Any

from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.reduction import legacy_reduction


class _Loss(Module):
    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = legacy_reduction(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    weight: Any

    def __init__(
        self, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
