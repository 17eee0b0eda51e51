"""Student's t distribution."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.chi2 import Chi2
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.utils import broadcast_all, standard_normal


class StudentT(Distribution):
    """Student's t distribution of ``df`` degrees of freedom, moved and scaled.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#studentt
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _parameters = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df: Tensor
        self.loc: Tensor
        self.scale: Tensor
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(StudentT, _instance)
        return self._expanded(new, batch_shape, _chi2=self._chi2.expand(batch_shape))

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        # only degrees with finite variance, so that gradients stay finite elsewhere
        df = ops.where(finite, self.df, 3.0)
        heavy = ops.where(self.df > 1, ops.full_like(self.df, math.inf), math.nan)
        return ops.where(finite, self.scale.pow(2) * df / (df - 2), heavy)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        normal = standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * ops.rsqrt(squares / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        y = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + ops.lgamma(0.5 * self.df)
            - ops.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * ops.log1p(y**2.0 / self.df) - normalizer

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(more)
        return self.scale.log() + more * (ops.digamma(more) - ops.digamma(half)) + 0.5 * self.df.log() + log_beta
