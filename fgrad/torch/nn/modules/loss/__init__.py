"""Losses: of real numbers, of classes, of pairs and sequences."""

from fgrad.torch.nn.modules.loss.base import (
    _Loss as _Loss,
    _WeightedLoss as _WeightedLoss,
)
from fgrad.torch.nn.modules.loss.classification import (
    BCELoss as BCELoss,
    BCEWithLogitsLoss as BCEWithLogitsLoss,
    CrossEntropyLoss as CrossEntropyLoss,
    KLDivLoss as KLDivLoss,
    MultiLabelMarginLoss as MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss,
    MultiMarginLoss as MultiMarginLoss,
    NLLLoss as NLLLoss,
    NLLLoss2d as NLLLoss2d,
    SoftMarginLoss as SoftMarginLoss,
)
from fgrad.torch.nn.modules.loss.comparison import (
    CosineEmbeddingLoss as CosineEmbeddingLoss,
    CTCLoss as CTCLoss,
    HingeEmbeddingLoss as HingeEmbeddingLoss,
    MarginRankingLoss as MarginRankingLoss,
    TripletMarginLoss as TripletMarginLoss,
    TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
)
from fgrad.torch.nn.modules.loss.linear import (
    LinearCrossEntropyLoss as LinearCrossEntropyLoss,
    LinearCrossEntropyOptions as LinearCrossEntropyOptions,
)
from fgrad.torch.nn.modules.loss.regression import (
    GaussianNLLLoss as GaussianNLLLoss,
    HuberLoss as HuberLoss,
    L1Loss as L1Loss,
    MSELoss as MSELoss,
    PoissonNLLLoss as PoissonNLLLoss,
    SmoothL1Loss as SmoothL1Loss,
)
