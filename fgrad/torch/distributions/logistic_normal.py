"""The logistic-normal distribution."""

from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.normal import Normal
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import StickBreakingTransform


class LogisticNormal(TransformedDistribution):
    """The distribution of points of the simplex that break a stick by normal numbers.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#logisticnormal
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _parameters = ()

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale
