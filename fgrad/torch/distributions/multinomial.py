"""The multinomial distribution."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.binomial import Binomial
from fgrad.torch.distributions.categorical import Categorical
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.probabilities import FromCategorical
from fgrad.torch.distributions.utils import broadcast_all


class Multinomial(FromCategorical, Distribution):
    """How often each category comes in ``total_count`` draws.

    >>> import fgrad.torch as torch
    >>> Multinomial(4, torch.tensor([1.0, 3.0])).mean
    tensor([1., 3.])

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#multinomial
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _parameters = ()

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Multinomial, _instance)
        categorical = self._categorical.expand(batch_shape)
        return self._expanded(new, batch_shape, total_count=self.total_count, _categorical=categorical)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, ops.ones_like(drawn)).type_as(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        ways = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = ops.tensor(self.total_count)
        each = Binomial(self.total_count, probs=self.probs)
        counts = each.enumerate_support(expand=False)[1:]
        expected = (each.log_prob(counts).exp() * ops.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - ops.lgamma(n + 1) + expected
