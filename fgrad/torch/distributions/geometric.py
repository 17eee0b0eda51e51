"""The geometric distribution."""

from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.probabilities import Probabilities
from fgrad.torch.distributions.utils import all_true, broadcast_all
from fgrad.torch.nn import functional


class Geometric(Probabilities, Distribution):
    """The number of failures before the first success.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#geometric
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parameters = ("probs", "logits")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_parameter(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            valid = value > 0
            if not all_true(valid):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to be positive but found invalid values:\n{value.data[~valid]}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        # no failures at probability zero: avoids 0 * log(0)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
