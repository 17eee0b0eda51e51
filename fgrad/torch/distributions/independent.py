"""Distributions whose last batch dimensions are taken as one event."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.utils import sum_rightmost


class Independent(Distribution):
    """A distribution whose last batch dimensions become dimensions of the event: log probabilities are summed there.

    >>> import fgrad.torch as torch
    >>> d = Independent(torch.distributions.Normal(torch.zeros(3, 2), 1.0), 1)
    >>> d.batch_shape, d.event_shape
    (torch.Size([3]), torch.Size([2]))

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#independent
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    _parameters = ()

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - event_dim
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = Size(batch_shape)
        base = self.base_dist.expand(batch_shape + self.event_shape[: self.reinterpreted_batch_ndims])
        return self._expanded(
            new, batch_shape, base_dist=base, reinterpreted_batch_ndims=self.reinterpreted_batch_ndims
        )

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return False if self.reinterpreted_batch_ndims > 0 else self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
