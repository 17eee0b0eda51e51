"""Fisher and Snedecor's F distribution."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.gamma import Gamma
from fgrad.torch.distributions.utils import broadcast_all


class FisherSnedecor(Distribution):
    """The distribution of the ratio of two chi squared numbers, each over its degrees of freedom.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#fishersnedecor
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ("df1", "df2")

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1: Tensor
        self.df2: Tensor
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gammas = [Gamma(df * 0.5, df) for df in (self.df1, self.df2)]
        super().__init__(self.df1.size(), validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(FisherSnedecor, _instance)
        return self._expanded(new, batch_shape, _gammas=[each.expand(batch_shape) for each in self._gammas])

    @property
    def mean(self) -> Tensor:
        df2 = ops.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        df2 = ops.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        tiny = finfo(self.df1.dtype).tiny
        above, below = (each.rsample(sample_shape) for each in self._gammas)
        below.clamp_(min=tiny)
        return (above / below).clamp_(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normalizer = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        density = half1 * ratio.log() + (half1 - 1) * ops.log(value)
        return normalizer + density - (half1 + half2) * ops.log1p(ratio * value)
