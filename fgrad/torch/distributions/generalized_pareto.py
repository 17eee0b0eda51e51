"""The generalised Pareto distribution."""

import math
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.utils import broadcast_all


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution: exponential if the concentration is zero, bounded if it is negative.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#generalizedpareto
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameters = ("loc", "scale", "concentration")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.scale: Tensor
        self.concentration: Tensor
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def _exponential(self) -> Tensor:
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    @property
    def _power(self) -> Tensor:
        """The concentration, replaced by one where the distribution is exponential."""
        return ops.where(self._exponential, ops.ones_like(self.concentration), self.concentration)

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        upper = ops.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        z, k = self._z(value), self._power
        heavy = -(1 + 1 / k) * ops.log1p(k * z)
        return -self.scale.log() + ops.where(self._exponential, -z, heavy)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a draw above this value."""
        self._checked(value)
        z, k = self._z(value), self._power
        return ops.where(self._exponential, -z, -ops.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a draw up to this value."""
        return ops.log1p(-ops.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return ops.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        logsf = ops.log1p(-value)
        k = self._power
        return self.loc + self.scale * ops.where(self._exponential, -logsf, ops.expm1(-k * logsf) / k)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        finite = k < 1
        return ops.where(finite, self.loc + self.scale / (1 - ops.where(finite, k, 0.5)), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        finite = k < 0.5
        k = ops.where(finite, k, 0.25)
        return ops.where(finite, self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k)), math.inf)

    def entropy(self) -> Tensor:
        return ops.log(self.scale) + self.concentration + 1
