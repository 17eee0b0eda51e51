"""The Bernoulli distribution."""

import math
from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.probabilities import Probabilities
from fgrad.torch.distributions.utils import broadcast_all
from fgrad.torch.nn import functional


class Bernoulli(Probabilities, ExponentialFamily):
    """One with a probability, given by itself or by its log odds, and zero else.

    >>> import fgrad.torch as torch
    >>> Bernoulli(torch.tensor([0.25])).variance
    tensor([0.1875])

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#bernoulli
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _parameters = ("probs", "logits")
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_parameter(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return ops.log1p(ops.exp(natural_params[0]))
