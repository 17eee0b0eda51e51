"""The exponential distribution."""

from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.utils import broadcast_all


class Exponential(ExponentialFamily):
    """The exponential distribution of a rate.

    >>> import fgrad.torch as torch
    >>> Exponential(torch.tensor([2.0])).mean
    tensor([0.5000])

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#exponential
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = ("rate",)
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate: Tensor
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return 1 - ops.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - ops.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -ops.log(-natural_params[0])
