"""Exponential families."""

from typing import Any

from fgrad.mutable.context.modes import enable_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.autograd import grad
from fgrad.torch.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """A distribution of density ``exp(<t(x), theta> - F(theta) + k(x))``, of which the entropy follows from ``F``.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#exponentialfamily
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """``theta``."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """``F``."""
        raise NotImplementedError

    #: the mean of ``k``
    _mean_carrier_measure: Any = property(Distribution._not_implemented)

    def entropy(self) -> Tensor:
        """The entropy, by the gradient of ``F``: the mean of ``t``."""
        carrier = self._mean_carrier_measure
        with enable_grad():
            params = [param.detach().requires_grad_() for param in self._natural_params]
            normalizer = self._log_normalizer(*params)
            means = grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - carrier
        for param, mean in zip(params, means, strict=True):
            result = result - (param * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result
