"""The relaxed one-hot categorical distribution, and its logarithm."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.categorical import Categorical
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.probabilities import FromCategorical
from fgrad.torch.distributions.transformed_distribution import TransformedDistribution
from fgrad.torch.distributions.transforms import ExpTransform
from fgrad.torch.distributions.utils import broadcast_all, clamp_probs


class ExpRelaxedCategorical(FromCategorical, Distribution):
    """The logarithms of relaxed one-hot vectors of a temperature.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#relaxedonehotcategorical
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True
    _parameters = ()

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        categorical = self._categorical.expand(batch_shape)
        return self._expanded(new, batch_shape, temperature=self.temperature, _categorical=categorical)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, logits = self._extended_shape(sample_shape), self.logits
        u = clamp_probs(ops.rand(shape, dtype=logits.dtype, device=logits.device))
        scores = (self.logits - (-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        temperature = ops.as_tensor(self.temperature, dtype=logits.dtype)
        scores = logits - value.mul(self.temperature)
        log_scale = ops.lgamma(ops.full_like(temperature, float(n))) + temperature.log() * (n - 1)
        return (scores - scores.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A relaxed one-hot categorical distribution: the higher the temperature, the further from one-hot.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#relaxedonehotcategorical
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _parameters = ()
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
