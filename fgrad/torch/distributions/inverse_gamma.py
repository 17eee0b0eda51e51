"""The inverse gamma distribution."""

import math
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.gamma import Gamma
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    """The distribution of one over a gamma number.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#inversegamma
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ()
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The concentration of the gamma number."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma number."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        result = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, result, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        result = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return ops.where(self.concentration > 2, result, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
