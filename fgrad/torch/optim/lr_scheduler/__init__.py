"""Learning-rate schedulers, under the names of ``torch.optim.lr_scheduler``."""

from fgrad.torch.optim.lr_scheduler.composites import ChainedScheduler, SequentialLR
from fgrad.torch.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from fgrad.torch.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from fgrad.torch.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from fgrad.torch.optim.lr_scheduler.lambdas import LambdaLR, MultiplicativeLR
from fgrad.torch.optim.lr_scheduler.plateau import ReduceLROnPlateau
from fgrad.torch.optim.lr_scheduler.scheduler import EPOCH_DEPRECATION_WARNING, LRScheduler, _LRScheduler

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
