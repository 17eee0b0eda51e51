"""The Beta distribution."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.dirichlet import Dirichlet
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.utils import broadcast_all


class Beta(ExponentialFamily):
    """The Beta distribution: the first of two numbers that are Dirichlet.

    >>> import fgrad.torch as torch
    >>> Beta(1.0, 3.0).mean
    tensor(0.2500)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#beta
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _parameters = ()

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = ops.stack(list(broadcast_all(concentration1, concentration0)), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        return self._expanded(new, batch_shape, _dirichlet=self._dirichlet.expand(batch_shape))

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._dirichlet.log_prob(ops.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def concentration1(self) -> Tensor:
        """The concentration at one."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The concentration at zero."""
        return self._dirichlet.concentration[..., 1]

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)
