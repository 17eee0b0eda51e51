"""Losses: of real numbers, of classes, of pairs and sequences."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.nn.modules.loss import (
        base as base,
        classification as classification,
        comparison as comparison,
        linear as linear,
        regression as regression,
    )
    from fgrad.torch.nn.modules.loss.base import _Loss as _Loss, _WeightedLoss as _WeightedLoss
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
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "base classification comparison linear regression",
            f"{__name__}.base": "_Loss _WeightedLoss",
            f"{__name__}.classification": "BCELoss BCEWithLogitsLoss CrossEntropyLoss KLDivLoss MultiLabelMarginLoss "
            "MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d SoftMarginLoss",
            f"{__name__}.comparison": "CosineEmbeddingLoss CTCLoss HingeEmbeddingLoss MarginRankingLoss "
            "TripletMarginLoss TripletMarginWithDistanceLoss",
            f"{__name__}.linear": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
            f"{__name__}.regression": "GaussianNLLLoss HuberLoss L1Loss MSELoss PoissonNLLLoss SmoothL1Loss",
        },
    )
