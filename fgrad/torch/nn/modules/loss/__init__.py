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
    from fgrad.torch.nn.modules.loss.classification import *
    from fgrad.torch.nn.modules.loss.comparison import *
    from fgrad.torch.nn.modules.loss.linear import *
    from fgrad.torch.nn.modules.loss.regression import *
else:
    from fgrad.torch.layers import LAYERS as _LAYERS

    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "base classification comparison linear regression",
            f"{__name__}.base": "_Loss _WeightedLoss",
            **{f"fgrad.torch.nn.modules.{file}": names for file, names in _LAYERS.items() if file.startswith("loss.")},
        },
    )
