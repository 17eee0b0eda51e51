"""The negative binomial distribution."""

from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.gamma import Gamma
from fgrad.torch.distributions.probabilities import Probabilities
from fgrad.torch.nn import functional


class NegativeBinomial(Probabilities, Distribution):
    """The number of successes before ``total_count`` failures.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#negativebinomial
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = ("total_count", "probs", "logits")

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (count,) = self._set_parameter(probs, logits, total_count)
        self.total_count: Tensor = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return ops.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        count, logits = self.total_count, self.logits
        chances = count * functional.logsigmoid(-logits) + value * functional.logsigmoid(logits)
        log_ways = ops.lgamma(count + value) - ops.lgamma(1.0 + value) - ops.lgamma(count)
        return chances + log_ways.masked_fill(count + value == 0.0, 0.0)
