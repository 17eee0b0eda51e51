"""The Poisson distribution."""

from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.utils import broadcast_all


class Poisson(ExponentialFamily):
    """The Poisson distribution of a rate.

    >>> import fgrad.torch as torch
    >>> Poisson(2.0).log_prob(torch.tensor(0.0))
    tensor(-2.)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#poisson
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate: Tensor
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ops.log(self.rate),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return ops.exp(natural_params[0])
