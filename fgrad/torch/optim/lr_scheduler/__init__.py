"""Learning-rate schedulers, under the names of ``torch.optim.lr_scheduler``."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.optim.lr_scheduler import (
        composites as composites,
        cosine as cosine,
        cycles as cycles,
        factors as factors,
        lambdas as lambdas,
        plateau as plateau,
        scheduler as scheduler,
    )
    from fgrad.torch.optim.lr_scheduler.composites import (
        ChainedScheduler as ChainedScheduler,
        SequentialLR as SequentialLR,
    )
    from fgrad.torch.optim.lr_scheduler.cosine import (
        CosineAnnealingLR as CosineAnnealingLR,
        CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
    )
    from fgrad.torch.optim.lr_scheduler.cycles import CyclicLR as CyclicLR, OneCycleLR as OneCycleLR
    from fgrad.torch.optim.lr_scheduler.factors import (
        ConstantLR as ConstantLR,
        ExponentialLR as ExponentialLR,
        LinearLR as LinearLR,
        MultiStepLR as MultiStepLR,
        PolynomialLR as PolynomialLR,
        StepLR as StepLR,
    )
    from fgrad.torch.optim.lr_scheduler.lambdas import LambdaLR as LambdaLR, MultiplicativeLR as MultiplicativeLR
    from fgrad.torch.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
    from fgrad.torch.optim.lr_scheduler.scheduler import (
        EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
        LRScheduler as LRScheduler,
        _LRScheduler as _LRScheduler,
    )
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "composites cosine cycles factors lambdas plateau scheduler",
            f"{__name__}.composites": "ChainedScheduler SequentialLR",
            f"{__name__}.cosine": "CosineAnnealingLR CosineAnnealingWarmRestarts",
            f"{__name__}.cycles": "CyclicLR OneCycleLR",
            f"{__name__}.factors": "ConstantLR ExponentialLR LinearLR MultiStepLR PolynomialLR StepLR",
            f"{__name__}.lambdas": "LambdaLR MultiplicativeLR",
            f"{__name__}.plateau": "ReduceLROnPlateau",
            f"{__name__}.scheduler": "EPOCH_DEPRECATION_WARNING LRScheduler _LRScheduler",
        },
    )

__all__ = [
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
    "CyclicLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "LRScheduler",
    "_LRScheduler",
    "EPOCH_DEPRECATION_WARNING",
]
