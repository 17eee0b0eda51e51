"""Normalisations of each sample by itself: layer, group, root-mean-square and local-response."""

import numbers
from typing import Any

from fgrad.torch import ops
from fgrad.torch.nn import functional as F, init
from fgrad.torch.nn.functional.cross_map import CrossMapLRN2d as _cross_map
from fgrad.torch.nn.modules.affine import Affine
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter


class LocalResponseNorm(Module):
    """Divides each channel by a norm of its neighbours.

    >>> import fgrad.torch as torch
    >>> torch.nn.LocalResponseNorm(2)
    LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)

    Source: `torch.nn.LocalResponseNorm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LocalResponseNorm.html>`_.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Any:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divides each channel of images by a norm of its neighbours, with PyTorch's own sums.

    Its sums never drop the first channel, and its gradient sums other channels than the values do: it is not their
    derivative.  ``LocalResponseNorm`` is correct.

    Arguments:
      size: how many channels to sum.
      alpha, beta, k: the factor of the mean, the exponent, and the term added to the mean.

    Raises:
      ValueError: the input does not have four dimensions.

    >>> import fgrad.torch as torch
    >>> torch.nn.CrossMapLRN2d(1, alpha=1.0, beta=1.0)(torch.full((1, 1, 1, 1), 2.0))
    tensor([[[[0.4000]]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Any:
        return _cross_map.apply(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (normalized_shape,)  # type: ignore[return-value]
    return tuple(normalized_shape)


class LayerNorm(Affine):
    """Gives the trailing dimensions mean 0 and variance 1, then scales and shifts them.

    Arguments:
      normalized_shape: the sizes of these dimensions, or the size of the last.
      eps: added to the variance.
      elementwise_affine: whether to scale and shift at all.
      bias: whether to shift.

    >>> import fgrad.torch as torch
    >>> torch.nn.LayerNorm(2)(torch.tensor([1.0, 3.0]))
    tensor([-1.0000,  1.0000], grad_fn=<NativeLayerNormBackward0>)

    Source: `torch.nn.LayerNorm <https://docs.pytorch.org/docs/2.13/generated/torch.nn.LayerNorm.html>`_.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Affine):
    """Gives each group of channels of each sample mean 0 and variance 1, then scales and shifts each channel.

    Raises:
      ValueError: ``num_groups`` does not divide ``num_channels``.

    >>> import fgrad.torch as torch
    >>> torch.nn.GroupNorm(2, 4)
    GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)

    Source: `torch.nn.GroupNorm <https://docs.pytorch.org/docs/2.13/generated/torch.nn.GroupNorm.html>`_.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides the trailing dimensions by their root mean square, then scales them.

    >>> import fgrad.torch as torch
    >>> torch.nn.RMSNorm(2, elementwise_affine=False)(torch.tensor([3.0, 3.0]))
    tensor([1., 1.])

    Source: `torch.nn.RMSNorm <https://docs.pytorch.org/docs/2.13/generated/torch.nn.RMSNorm.html>`_.
    """

    weight: Any

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the scale one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
