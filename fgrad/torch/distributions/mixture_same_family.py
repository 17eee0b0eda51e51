"""Mixtures of distributions of one kind."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.categorical import Categorical
from fgrad.torch.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    """A mixture: the components are the last batch dimension of a distribution.

    >>> import fgrad.torch as torch
    >>> parts = torch.distributions.Normal(torch.tensor([-1.0, 3.0]), 1.0)
    >>> MixtureSameFamily(Categorical(torch.ones(2)), parts).mean
    tensor(1.)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#mixturesamefamily
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False
    _parameters = ()

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixture_shape, batch_shape = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(mixture_shape), reversed(batch_shape), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch_shape})"
                )
        count, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if count is not None and components is not None and count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({components})"
            )
        self._num_component = components
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape=batch_shape, event_shape=event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        return self._expanded(
            new,
            batch_shape,
            _mixture_distribution=self._mixture_distribution.expand(batch_shape),
            _component_distribution=self._component_distribution.expand(batch_shape + (self._num_component,)),
            _num_component=self._num_component,
            _event_ndims=self._event_ndims,
        )

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the components' indices."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def _dim(self) -> int:
        return -1 - self._event_ndims

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(dim=self._dim)

    @property
    def variance(self) -> Tensor:
        # the law of total variance
        weights, means = self._weights(), self.component_distribution.mean
        within = (weights * self.component_distribution.variance).sum(dim=self._dim)
        deviations = means - self.mean.unsqueeze(self._dim)
        return within + (weights * deviations.pow(2.0)).sum(dim=self._dim)

    def cdf(self, x: Tensor) -> Tensor:
        parts = self.component_distribution.cdf(x.unsqueeze(self._dim))
        return (parts * self.mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._checked(x)
        log_parts = self.component_distribution.log_prob(x.unsqueeze(self._dim))
        return ops.logsumexp(log_parts + ops.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            index = self.mixture_distribution.sample(sample_shape)
            parts = self.component_distribution.sample(sample_shape)
            index = index.reshape(index.shape + (1,) * (self._event_ndims + 1))
            index = index.expand(index.shape[: index.dim() - self._event_ndims] + self._event_shape)
            # the component axis precedes the event's
            index = index.expand(parts.shape[: parts.dim() + self._dim] + (1,) + self._event_shape)
            return parts.gather(self._dim, index).squeeze(self._dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
