"""The Gumbel distribution."""

import math
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import AffineTransform, ExpTransform
from fgrad.torch.distributions.uniform import Uniform
from fgrad.torch.distributions.utils import broadcast_all, euler_constant


class Gumbel(TransformedDistribution):
    """The Gumbel distribution: the limit of the largest of many numbers.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#gumbel
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.scale: Tensor
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low, high = ops.full_like(self.loc, limits.tiny), ops.full_like(self.loc, 1 - limits.eps)
        super().__init__(
            Uniform(low, high, validate_args=validate_args), self._steps(self.loc, self.scale), validate_args
        )

    @staticmethod
    def _steps(loc: Tensor, scale: Tensor) -> list[Any]:
        minus = AffineTransform(loc=0, scale=-ops.ones_like(scale))
        return [ExpTransform().inv, minus, ExpTransform().inv, AffineTransform(loc=loc, scale=-scale)]

    def _expanded(self, new: Any, batch_shape: Any, **more: Any) -> Any:
        new = super()._expanded(new, batch_shape, **more)
        new.transforms = self._steps(new.loc, new.scale)
        return new

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
