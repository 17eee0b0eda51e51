"""The Pareto distribution."""

from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.exponential import Exponential
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import AffineTransform, ExpTransform
from fgrad.torch.distributions.utils import broadcast_all


class Pareto(TransformedDistribution):
    """The Pareto distribution of the first kind: powers above ``scale``.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#pareto
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"alpha": constraints.positive, "scale": constraints.positive}
    _parameters = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale: Tensor
        self.alpha: Tensor
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, self._steps(self.scale), validate_args=validate_args)

    @staticmethod
    def _steps(scale: Tensor) -> list[Any]:
        return [ExpTransform(), AffineTransform(loc=0, scale=scale)]

    def _expanded(self, new: Any, batch_shape: Any, **more: Any) -> Any:
        new = super()._expanded(new, batch_shape, **more)
        new.transforms = self._steps(new.scale)
        return new

    @property
    def mean(self) -> Tensor:
        # infinite for heavy tails
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
