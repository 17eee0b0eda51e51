"""The Weibull distribution."""

from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.exponential import Exponential
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import AffineTransform, PowerTransform
from fgrad.torch.distributions.utils import broadcast_all, euler_constant


class Weibull(TransformedDistribution):
    """The Weibull distribution: a power of an exponential number, scaled.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#weibull
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _parameters = ("scale", "concentration")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale: Tensor
        self.concentration: Tensor
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._steps(self.scale, self.concentration), validate_args=validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        """One over the concentration."""
        return self.concentration.reciprocal()

    @staticmethod
    def _steps(scale: Tensor, concentration: Tensor) -> list[Any]:
        return [PowerTransform(exponent=concentration.reciprocal()), AffineTransform(loc=0, scale=scale)]

    def _expanded(self, new: Any, batch_shape: Any, **more: Any) -> Any:
        new = super()._expanded(new, batch_shape, **more)
        new.transforms = self._steps(new.scale, new.concentration)
        return new

    @property
    def mean(self) -> Tensor:
        return self.scale * ops.exp(ops.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return self.scale.pow(2) * (ops.exp(ops.lgamma(1 + 2 * inverse)) - ops.exp(2 * ops.lgamma(1 + inverse)))

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + ops.log(self.scale * inverse) + 1
