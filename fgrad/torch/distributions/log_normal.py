"""The log-normal distribution."""

from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.normal import Normal
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import ExpTransform


class LogNormal(TransformedDistribution):
    """The distribution of numbers whose logarithms are normal.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#lognormal
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ()
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
