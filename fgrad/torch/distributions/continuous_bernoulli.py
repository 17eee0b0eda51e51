"""The continuous Bernoulli distribution."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.probabilities import Probabilities
from fgrad.torch.distributions.utils import all_true, broadcast_all, clamp_probs, lazy_property, logits_to_probs
from fgrad.torch.nn import functional


class ContinuousBernoulli(Probabilities, ExponentialFamily):
    """Numbers from zero to one, of density proportional to ``p**x * (1 - p)**(1 - x)``.

    Between ``lims`` the formulas divide by almost zero; their series around one half replace them.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#continuousbernoulli
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("probs", "logits")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_parameter(probs, logits)
        if probs is not None:
            if validate_args is not None and not all_true(self.arg_constraints["probs"].check(self.probs)):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, inside the interval."""
        return clamp_probs(logits_to_probs(self.logits, True))

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(ContinuousBernoulli, _instance)
        return self._expanded(new, batch_shape, _lims=self._lims)

    @property
    def _stable(self) -> Tensor:
        """Where the formulas are stable."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    @property
    def _cut(self) -> Tensor:
        """The probabilities, replaced by others where the formulas are unstable."""
        return ops.where(self._stable, self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        cut, x = self._cut, self.probs - 0.5
        low = cut <= 0.5
        below, above = ops.where(low, cut, 0.0), ops.where(cut >= 0.5, cut, 1.0)
        width = ops.where(low, ops.log1p(-2.0 * below), ops.log(2.0 * above - 1.0))
        exact = ops.log(ops.abs(ops.log1p(-cut) - ops.log(cut))) - width
        return ops.where(self._stable, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x.pow(2)) * x.pow(2))

    @property
    def mean(self) -> Tensor:
        cut, x = self._cut, self.probs - 0.5
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (ops.log1p(-cut) - ops.log(cut))
        return ops.where(self._stable, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        cut, square = self._cut, (self.probs - 0.5).pow(2)
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / (ops.log1p(-cut) - ops.log(cut)).pow(2)
        return ops.where(self._stable, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -functional.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        cut = self._cut
        exact = (ops.pow(cut, value) * ops.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = ops.where(self._stable, exact, value)
        return ops.where(value <= 0.0, 0.0, ops.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut
        log_failure = ops.log1p(-cut)
        exact = (ops.log1p(-cut + value * (2.0 * cut - 1.0)) - log_failure) / (ops.log(cut) - log_failure)
        return ops.where(self._stable, exact, value)

    def entropy(self) -> Tensor:
        log_failure = ops.log1p(-self.probs)
        return self.mean * (log_failure - ops.log(self.probs)) - self._log_norm() - log_failure

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        low, high = (self._lims[0] - 0.5, self._lims[1] - 0.5)
        stable = (x <= low) | (x > high)
        cut = ops.where(stable, x, low)
        exact = ops.log(ops.abs(ops.expm1(cut))) - ops.log(ops.abs(cut))
        return ops.where(stable, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
