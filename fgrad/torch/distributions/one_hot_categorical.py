"""Categorical distributions over one-hot vectors."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.categorical import Categorical
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.probabilities import FromCategorical
from fgrad.torch.nn import functional


class OneHotCategorical(FromCategorical, Distribution):
    """A one-hot vector, its index drawn by weights or their logarithms.

    >>> import fgrad.torch as torch
    >>> OneHotCategorical(torch.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#onehotcategorical
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    _parameters = ()

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(OneHotCategorical, _instance)
        return self._expanded(new, batch_shape, _categorical=self._categorical.expand(batch_shape))

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        probs = self._categorical.probs
        return functional.one_hot(probs.argmax(dim=-1), probs.shape[-1]).to(probs)

    @property
    def variance(self) -> Tensor:
        return self._categorical.probs * (1 - self._categorical.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        probs = self._categorical.probs
        indices = self._categorical.sample(Size(sample_shape))
        return functional.one_hot(indices, self._categorical._num_events).to(probs)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        param = self._categorical._param
        values = ops.eye(n, dtype=param.dtype, device=param.device).view((n, *[1] * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A one-hot categorical distribution whose draws have the gradients of the probabilities.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#onehotcategorical
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        samples = self.sample(sample_shape)
        probs = self._categorical.probs
        return samples + (probs - probs.detach())
