"""The Kumaraswamy distribution."""

import math
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import AffineTransform, PowerTransform
from fgrad.torch.distributions.uniform import Uniform
from fgrad.torch.distributions.utils import broadcast_all, euler_constant


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution, of numbers from zero to one.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#kumaraswamy
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1: Tensor
        self.concentration0: Tensor
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros, ones = ops.full_like(self.concentration0, 0), ops.full_like(self.concentration0, 1)
        base = Uniform(zeros, ones, validate_args=validate_args)
        steps = self._steps(self.concentration1, self.concentration0)
        super().__init__(base, steps, validate_args=validate_args)

    @staticmethod
    def _steps(a: Tensor, b: Tensor) -> list[Any]:
        return [
            PowerTransform(exponent=b.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=a.reciprocal()),
        ]

    def _expanded(self, new: Any, batch_shape: Any, **more: Any) -> Any:
        new = super()._expanded(new, batch_shape, **more)
        new.transforms = self._steps(new.concentration1, new.concentration0)
        return new

    def _moment(self, n: int) -> Tensor:
        first = 1 + n / self.concentration1
        log_beta = ops.lgamma(first) + ops.lgamma(self.concentration0) - ops.lgamma(first + self.concentration0)
        return self.concentration0 * ops.exp(log_beta)

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = ops.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * harmonic - ops.log(self.concentration1) - ops.log(self.concentration0)
